"""The root file system that the controller's image is built on here: this machine's Python at /usr/local, and what it needs.

It stands for python:…-slim of the Dockerfile where no registry can be asked: a shell, `rm`, glibc, Python with its libraries, the
public authorities, and no package of anybody.
"""

from __future__ import annotations

import io
import re
import subprocess
import sys
import sysconfig
import tarfile
from collections.abc import Sequence
from pathlib import Path
from typing import IO, Any

DOCKERFILE = """\
FROM scratch
ADD base.tar /
ENV PATH=/usr/local/bin:/usr/bin:/bin
RUN python -c "import ensurepip, sys; sys.real_prefix = sys.prefix; ensurepip.bootstrap(upgrade=True)"
"""
"""Of the base image, beside the archive; what python:…-slim installs too is installed by Python itself. Debian's Python refuses
that outside of virtual environments, which it knows by `real_prefix`."""

_PYTHON = f"python{sys.version_info.major}.{sys.version_info.minor}"
_PROGRAMS = (Path("/bin/sh"), Path("/bin/rm"))
_AUTHORITIES = Path("/etc/ssl/certs/ca-certificates.crt")
_LEFT_OUT = re.compile(
    r"^(__pycache__|test|tests|idlelib|tkinter|turtledemo|site-packages|dist-packages|config-.*|EXTERNALLY-MANAGED)$"
)
_LIBRARY = re.compile(r"(?:=> )?(/\S+) \(0x")
_BESIDE_LIBC = (
    *("libpthread.so.0", "libdl.so.2", "librt.so.1", "libutil.so.1", "libresolv.so.2"),
    *("libnss_files.so.2", "libnss_dns.so.2", "libgcc_s.so.1", "libstdc++.so.6"),
)
"""What wheels may be linked with, and what glibc loads by name."""

_ACCOUNTS = {
    "etc/passwd": "root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65534:nobody:/nonexistent:/bin/false\n",
    "etc/group": "root:x:0:\nnogroup:x:65534:\n",
}


def pack_base(archive: Path) -> None:
    """Writes the root file system as a tar archive. Raises: AssertionError where `ldd` cannot read a program."""
    library = Path(sysconfig.get_path("stdlib"))
    python = Path(sys.base_prefix, "bin", _PYTHON)
    with tarfile.open(archive, "w") as packed:
        for folder in ("etc", "proc", "sys", "dev", "run", "usr", "usr/local", "usr/local/bin", "usr/local/lib", "var"):
            _add(packed, folder, type=tarfile.DIRTYPE, mode=0o755)
        _add(packed, "tmp", type=tarfile.DIRTYPE, mode=0o1777)
        for name, text in _ACCOUNTS.items():
            _add(packed, name, size=len(text), content=io.BytesIO(text.encode()))
        packed.add(python.resolve(), f"usr/local/bin/{_PYTHON}", filter=_of_root)
        for link in ("python", "python3"):
            _add(packed, f"usr/local/bin/{link}", type=tarfile.SYMTYPE, linkname=_PYTHON)
        packed.add(library, f"usr/local/lib/{_PYTHON}", filter=_without_packages)
        _add(packed, f"usr/local/lib/{_PYTHON}/site-packages", type=tarfile.DIRTYPE, mode=0o755)
        if wheels := sysconfig.get_config_var("WHEEL_PKG_DIR"):  # where Debian and Fedora keep what ensurepip installs
            packed.add(Path(wheels).resolve(), wheels.strip("/"), filter=_of_root)
        for program in _PROGRAMS:
            packed.add(program.resolve(), str(program)[1:], filter=_of_root)
        for path in _libraries([python, *_PROGRAMS, *sorted((library / "lib-dynload").glob("*.so"))]):
            packed.add(path.resolve(), _place(path)[1:], filter=_of_root)
        if _AUTHORITIES.exists():
            packed.add(_AUTHORITIES.resolve(), str(_AUTHORITIES)[1:], filter=_of_root)


def _libraries(programs: Sequence[Path]) -> list[Path]:
    done = subprocess.run(["ldd", *map(str, programs)], capture_output=True, text=True, timeout=60, check=False)
    found = {Path(path) for path in _LIBRARY.findall(done.stdout)}
    libc = next((path for path in found if path.name.startswith("libc.so")), None)
    assert libc is not None, f"ldd finds no libc: {done.stdout[-500:]}{done.stderr[-500:]}"
    beside = {libc.with_name(name) for name in _BESIDE_LIBC}
    return sorted(found | {path for path in beside if path.exists()})


def _place(library: Path) -> str:
    """Where the loader finds it in the image: a Python that was built by hand has libraries in a folder of its own."""
    own = library.is_relative_to(sys.base_prefix) and sys.base_prefix != "/usr"
    return f"/usr/lib/{library.name}" if own else str(library)


def _without_packages(entry: tarfile.TarInfo) -> tarfile.TarInfo | None:
    return None if any(map(_LEFT_OUT.match, Path(entry.name).parts)) else _of_root(entry)


def _of_root(entry: tarfile.TarInfo) -> tarfile.TarInfo:
    entry.uid = entry.gid = 0
    entry.uname = entry.gname = "root"
    return entry


def _add(packed: tarfile.TarFile, name: str, *, content: IO[bytes] | None = None, **fields: Any) -> None:
    entry = tarfile.TarInfo(name)
    for field, value in fields.items():
        setattr(entry, field, value)
    packed.addfile(entry, content)
