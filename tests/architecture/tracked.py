"""The files of the project, without what was built or installed beside them."""

from __future__ import annotations

import subprocess
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent


def tracked(root: Path = ROOT, *, new: bool = True) -> list[Path]:
    """Files that are in Git or, with `new`, would be after `git add .`; of an unpacked archive, all of them."""
    done = subprocess.run(
        ["git", "ls-files", "-z", "--cached", *(("--others", "--exclude-standard") if new else ())],
        cwd=root,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode == 0:
        return [root / name for name in done.stdout.split("\0") if name and (root / name).is_file()]
    hidden = {".venv", "build", "dist", "__pycache__"}
    return [path for path in root.rglob("*") if path.is_file() and not hidden & set(path.relative_to(root).parts)]
