"""`python -m tests.core.transcripts`: writes the transcripts anew, for a change that is meant to alter decisions."""

from __future__ import annotations

from tests.core.transcripts.plays import PLAYS
from tests.core.transcripts.record import FOLDER, transcript

for name, plays in PLAYS.items():
    (FOLDER / f"{name}.txt").write_text(transcript(plays))
