"""Reads a stream of bytes line by line, and cuts lines that are too long without harm to the others."""

from __future__ import annotations

from collections.abc import Awaitable, Callable


class Lines:
    """Reads lines.

    Args:
        read: returns the next bytes of the stream, b"" at its end.
        most_bytes: a longer line is cut to this length, without its end; the rest is read and dropped.
    """

    def __init__(self, read: Callable[[], Awaitable[bytes]], *, most_bytes: int) -> None:
        self._read = read
        self._most_bytes = most_bytes
        self._buffer = bytearray()  # removing bytes from its front moves nothing
        self._searched = 0  # bytes at its front without an end of line
        self._cut = b""  # the beginning of a long line whose rest is being dropped

    async def readline(self) -> bytes:
        """The next line with its end; b"" at the end of the stream. The last line may have no end.

        Cancellation: safe; no byte is lost. Raises: what `read` raises.
        """
        while True:
            end = self._buffer.find(b"\n", self._searched) + 1
            if end:
                line, self._cut = self._cut, b""
                line = line or bytes(self._buffer[: min(end, self._most_bytes)])
                self._take(end)
                return line
            self._searched = len(self._buffer)
            if self._cut:
                self._take(len(self._buffer))
            elif len(self._buffer) >= self._most_bytes:
                self._cut = bytes(self._buffer[: self._most_bytes])
                self._take(len(self._buffer))
            chunk = await self._read()
            if not chunk:
                line, self._cut = self._cut or bytes(self._buffer), b""
                self._take(len(self._buffer))
                return line
            self._buffer += chunk

    def _take(self, size_bytes: int) -> None:
        del self._buffer[:size_bytes]
        self._searched = 0
