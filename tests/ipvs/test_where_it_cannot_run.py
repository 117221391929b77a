"""Without a guest: where it cannot be booted, that is said with the remedy; and the tables are read as the kernel writes them."""

from __future__ import annotations

from pathlib import Path

from tests.ipvs import guest_machine
from tests.ipvs.guest.tables import Entry, RealServer, parse_entries, parse_servers

_SERVERS = """\
IP Virtual Server version 1.2.1 (size=4096)
Prot LocalAddress:Port Scheduler Flags
  -> RemoteAddress:Port Forward Weight ActiveConn InActConn
TCP  0A60000A:0050 rr persistent 10800 FFFFFFFF
  -> 0A59000B:1F90      Masq    0      1          2
  -> 0A59000A:1F90      Masq    1      0          0
UDP  0A60000D:0035 rr
"""

_ENTRIES = """\
Pro FromIP   FPrt ToIP     TPrt DestIP   DPrt State       Expires PEName PEData
TCP 0A5A0002 4E20 0A60000A 0050 0A59000B 1F90 TIME_WAIT       119
UDP 0A5A0002 4E21 0A60000D 0035 0A59000A 1F90 UDP             300
"""


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


def test_every_real_server_is_read_with_its_weight_and_its_connections() -> None:
    """A Service without servers has none, and the words after the scheduler do not confuse it."""
    assert parse_servers(_SERVERS) == [
        RealServer("TCP", "10.96.0.10:80", "10.89.0.11:8080", 0, 1, 2),
        RealServer("TCP", "10.96.0.10:80", "10.89.0.10:8080", 1, 0, 0),
    ]


def test_every_connection_is_read_with_its_state_and_the_rest_of_its_life() -> None:
    """These are the seconds that the waits come from."""
    assert parse_entries(_ENTRIES) == [
        Entry("TCP", 20_000, "10.96.0.10:80", "10.89.0.11:8080", "TIME_WAIT", 119),
        Entry("UDP", 20_001, "10.96.0.13:53", "10.89.0.10:8080", "UDP", 300),
    ]
