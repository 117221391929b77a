"""Where the guest cannot be booted, that is said with the remedy. These tests need no guest."""

from __future__ import annotations

from pathlib import Path

from tests.ipvs import guest_machine


def test_a_machine_without_the_packages_is_told_which_and_what_to_do(tmp_path: Path) -> None:
    """The reason is all that who runs the tests gets to see of this tier; it must be enough to change that."""
    reason = guest_machine.unavailable(tmp_path)
    assert reason is not None
    if "x86_64" not in reason:
        assert "user-mode-linux, kmod, iptables, ipset, ipvsadm, iproute2 not installed" in reason
        assert "make ipvs" in reason


def test_a_processor_with_more_registers_than_the_guest_can_save_is_told(tmp_path: Path) -> None:
    """The guest's first process would end with "ptrace set fp regs failed" after every package was installed."""
    info = tmp_path / "proc/cpuinfo"
    info.parent.mkdir()
    info.write_text("flags\t\t: fpu avx512f amx_bf16 amx_tile\n")
    reason = guest_machine.unavailable(tmp_path)
    assert reason is not None
    assert "AMX" in reason or "x86_64" in reason


def test_packages_that_are_there_are_not_asked_for(tmp_path: Path) -> None:
    """apt is asked for what is missing only."""
    kernel = tmp_path / "usr/bin/linux.uml"
    kernel.parent.mkdir(parents=True)
    kernel.touch()
    assert guest_machine.missing_packages(tmp_path) == ["kmod", "iptables", "ipset", "ipvsadm", "iproute2"]
