"""Boots the user-mode Linux guest on this machine's own file system, read-only, and brings back what it measured.

User-mode Linux is a kernel that runs as an ordinary process: no root, no KVM, no network of the host. Debian's has ip_vs.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

import msgspec

from tests.ipvs.plan import Measured, Plan
from tests.lab import binaries
from tests.lab.processes import ProcessEnded, Processes

ENDS_WITHIN_S = 355.0  # the tier's own limit of 6 minutes, less what pytest needs besides

PACKAGES = {
    "user-mode-linux": Path("/usr/bin/linux.uml"),
    "kmod": Path("/sbin/modprobe"),
    "iptables": Path("/usr/sbin/xtables-legacy-multi"),
    "ipset": Path("/usr/sbin/ipset"),
    "ipvsadm": Path("/usr/sbin/ipvsadm"),
    "iproute2": Path("/usr/bin/ip"),
}
"""Debian's packages that are needed, each with a file of it."""

PROGRAMS = tuple(
    program
    for program in (*binaries.PROGRAMS, *binaries.NODE_PROGRAMS)
    if program.name in {"etcd", "kube-apiserver", "kube-proxy"}
)

_ROOT = Path(__file__).parent.parent.parent
_KERNEL = PACKAGES["user-mode-linux"]
_MODULES_FOLDER = Path("/usr/lib/uml/modules")
_MEMORY = "2500M"
_SWITCHES_OFF_WITHIN_S = 10.0
_NICE = -10
_MODULES = (
    *("veth", "bridge", "dummy"),
    *("nf_conntrack", "nf_nat", "nf_conntrack_netlink", "iptable_filter", "iptable_nat", "iptable_mangle"),
    *("xt_comment", "xt_mark", "xt_conntrack", "xt_set", "xt_addrtype", "xt_tcpudp", "xt_nat", "xt_MASQUERADE"),
    *("xt_statistic", "ipt_REJECT"),
    *("ip_set", "ip_set_hash_ip", "ip_set_hash_ipport", "ip_set_hash_ipportip", "ip_set_hash_ipportnet"),
    *("ip_set_hash_net", "ip_set_bitmap_port"),
    *("ip_vs", "ip_vs_rr"),
)


class GuestFailed(Exception):
    """The guest did not bring its measurements back; the message holds the end of its console log."""


def missing_packages(root: Path = Path("/")) -> list[str]:
    """Debian's packages that this machine, or the one whose file system is at `root`, lacks."""
    return [name for name, file in PACKAGES.items() if not (root / file.relative_to("/")).exists()]


def too_large_registers(root: Path = Path("/")) -> bool:
    """Whether the processor's extended state is larger than what user-mode Linux has room for: its first process ends then.

    It gives the host a buffer of its own size, and the host takes a whole one only (EFAULT). Source: Linux 6.1,
    arch/x86/kernel/fpu/regset.c `xstateregs_set`; arch/x86/um/os-Linux/registers.c `put_fp_registers`.
    """
    info = root / "proc" / "cpuinfo"
    return info.exists() and "amx_tile" in info.read_text().split()


def unavailable(root: Path = Path("/")) -> str | None:
    """Why the guest cannot be booted here, with the remedy; None when it can."""
    if sys.platform != "linux" or os.uname().machine != "x86_64":
        return "user-mode Linux needs Linux on x86_64"
    if too_large_registers(root):
        return "user-mode Linux cannot save this processor's registers (AMX); run it on one without"
    if missing := missing_packages(root):
        return f"Debian's {', '.join(missing)} not installed; `make ipvs` installs it where it can"
    try:
        binaries.folder(programs=PROGRAMS)
    except binaries.LabUnavailable as reason:
        return str(reason).replace("make node", "make ipvs").replace("make lab", "make ipvs")
    return None


def measure(plan: Plan, folder: Path) -> Measured:
    """Boots the guest, waits until it has switched itself off, and returns what it measured.

    Guarantees: nothing of the guest runs any more when this returns or raises; `folder/logs` holds the console log and those of
    the programs in the guest.
    Raises: GuestFailed.
    """
    (folder / "logs").mkdir(parents=True)
    (folder / "plan.json").write_text(json.dumps(asdict(plan)))
    _link_modules(folder)
    processes = Processes(folder / "logs")
    answer = folder / "measured.json"
    process_id = processes.start("console", _boot(folder), environment={"TMPDIR": _memory_folder()})
    try:
        _take_precedence(process_id)
        _wait_for_the_end(processes, answer)
    finally:
        processes.stop(patience_s=1)
    if not answer.exists():
        console = (folder / "logs" / "console.log").read_text(errors="replace")
        raise GuestFailed(
            f"the guest brought no measurements within {ENDS_WITHIN_S:.0f} s; its console's last words:\n{console[-3000:]}"
        )
    return msgspec.json.decode(answer.read_bytes(), type=Measured)


def keep_logs(folder: Path, to: Path) -> None:
    """Copies the run's logs to a place that outlives it; older ones there are replaced."""
    shutil.rmtree(to, ignore_errors=True)
    shutil.copytree(folder / "logs", to)


def _wait_for_the_end(processes: Processes, answer: Path) -> None:
    """Returns when the kernel has switched itself off, or should have."""
    deadline = time.monotonic() + ENDS_WITHIN_S
    while time.monotonic() < deadline:
        try:
            processes.check()
        except ProcessEnded:
            return
        if answer.exists():  # all that is left to do is to write the logs out and to switch off
            deadline = min(deadline, time.monotonic() + _SWITCHES_OFF_WITHIN_S)
        time.sleep(0.2)


def _boot(folder: Path) -> Sequence[str | Path]:
    """The guest's kernel with its command line; what the kernel does not know itself becomes init's environment."""
    return [
        # The guest's kernel and its programs are processes that take turns, thousands of times a second: on one processor that is
        # four times as fast as across two.
        *("taskset", "--cpu-list", str(max(os.sched_getaffinity(0)))),
        _KERNEL,
        "rootfstype=hostfs",
        "rootflags=/",
        "ro",
        f"mem={_MEMORY}",
        f"init={Path(__file__).parent / 'init.sh'}",
        "con=null",
        "con0=null,fd:1",
        "quiet",
        "umid=guest",
        f"uml_dir={folder}",
        f"ROLLOUTS_RUN={folder}",
        f"ROLLOUTS_CODE={_ROOT}",
        f"ROLLOUTS_PYTHON={sys.executable}",
        f"ROLLOUTS_PROGRAMS={binaries.folder(programs=PROGRAMS)}",
        f"ROLLOUTS_MODULES={','.join(_MODULES)}",
    ]


def _take_precedence(process_id: int) -> None:
    """Where others work too, the guest's one processor should not wait for each of its turns; only root may ask for that.

    The kernel shares processors between sessions first (sched(7), autogroup) and between the processes of one after that.
    """
    with contextlib.suppress(OSError):
        os.setpriority(os.PRIO_PGRP, process_id, _NICE)
    with contextlib.suppress(OSError):
        Path(f"/proc/{process_id}/autogroup").write_text(str(_NICE))


def _link_modules(folder: Path) -> None:
    """modprobe wants lib/modules/VERSION in a folder; Debian keeps these modules elsewhere, and the guest cannot write to /."""
    version = next(_MODULES_FOLDER.iterdir())
    modules = folder / "lib" / "modules"
    modules.mkdir(parents=True)
    (modules / version.name).symlink_to(version)


def _memory_folder() -> str:
    """Where the guest's memory file may be: a tmpfs from which programs may run, else the usual folder."""
    shared = Path("/dev/shm")  # noqa: S108 - a folder of the kernel's own choice, and the file in it has no name
    return str(shared) if os.access(shared, os.W_OK) else os.environ.get("TMPDIR", "/tmp")  # noqa: S108
