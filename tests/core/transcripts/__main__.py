"""`python -m tests.core.transcripts`: writes the transcripts anew, for a change that is meant to alter decisions."""

from __future__ import annotations

from tests.core.transcripts.record import FOLDER, all_transcripts, transcript

for name, parts in all_transcripts().items():
    (FOLDER / f"{name}.txt").write_text(transcript(parts))
