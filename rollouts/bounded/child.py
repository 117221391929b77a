"""The process that `process.py` starts: it answers one call after the other, and the kernel ends it when one takes too long.

The parent of the two processes here only waits. It has imported what calls need, so that a new child, after one was ended, starts
within a millisecond.
"""

from __future__ import annotations

import contextlib
import gc
import os
import pickle
import resource
import signal
import socket
import sys
from importlib import import_module
from pathlib import Path
from typing import NoReturn

HEAD_BYTES = 4  # the length of what follows, big-endian

READY = b"+"
"""What it says once it has imported everything; before that no call counts its time."""

ANSWERED, RAISED, ENDED = b"=", b"!", b"-"
"""The first byte of an answer: a value, an exception, or nothing, because the limit was reached."""

_LESS_IMPORTANT = 10  # nice(2): the event loop comes first where both want one core


def main() -> NoReturn:
    """Forks until the other side has closed the connection: a child ends then, or this process cannot answer for it.

    Arguments of the process: limit of CPU time in seconds, limit of memory in bytes, modules to import.
    """
    cpu_s, memory_bytes = float(sys.argv[1]), int(sys.argv[2])
    connection = socket.socket(fileno=0)
    connection.setblocking(True)
    os.nice(_LESS_IMPORTANT)
    for module in sys.argv[3:]:
        with contextlib.suppress(ImportError):  # not for this platform: the calls that need it say so
            import_module(module)
    gc.freeze()
    connection.sendall(READY)
    while True:
        child = os.fork()
        if child == 0:
            _serve(connection, cpu_s=cpu_s, memory_bytes=memory_bytes)
        _, status = os.waitpid(child, 0)
        if not os.WIFSIGNALED(status):
            sys.exit(os.waitstatus_to_exitcode(status))
        _send(connection, ENDED)


def _serve(connection: socket.socket, *, cpu_s: float, memory_bytes: int) -> NoReturn:
    _limit_memory(memory_bytes)
    while (head := _read(connection, HEAD_BYTES)) is not None:
        request = _read(connection, int.from_bytes(head))
        if request is None:
            break
        # No handler: SIGPROF ends the process, in whatever library it is.
        signal.setitimer(signal.ITIMER_PROF, cpu_s)
        try:
            function, arguments = pickle.loads(request)  # noqa: S301 - of the process that started this one
            answer = ANSWERED + pickle.dumps(function(*arguments), pickle.HIGHEST_PROTOCOL)
        except MemoryError:
            os.kill(os.getpid(), signal.SIGKILL)
        except Exception as error:
            answer = RAISED + pickle.dumps(error, pickle.HIGHEST_PROTOCOL)
        signal.setitimer(signal.ITIMER_PROF, 0)
        _send(connection, answer)
    os._exit(0)


def _limit_memory(more_bytes: int) -> None:
    """Limits the address space to what there is now and `more_bytes`; not on systems without /proc."""
    try:
        now_bytes = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0]) * resource.getpagesize()
    except OSError:
        return
    resource.setrlimit(resource.RLIMIT_AS, (now_bytes + more_bytes,) * 2)


def _read(connection: socket.socket, count: int) -> bytes | None:
    """So many bytes; None when the other side has closed the connection."""
    read = bytearray()
    while len(read) < count:
        some = connection.recv(count - len(read))
        if not some:
            return None
        read += some
    return bytes(read)


def _send(connection: socket.socket, answer: bytes) -> None:
    connection.sendall(len(answer).to_bytes(HEAD_BYTES) + answer)


if __name__ == "__main__":
    main()
