"""What the processes of a service say to each other: frames on sockets, and shared numbers."""

from __future__ import annotations

import asyncio
import multiprocessing
import select
import socket
import struct
import threading
import time
import zlib
from collections.abc import Hashable, Iterator
from dataclasses import dataclass, field
from multiprocessing.context import SpawnContext
from typing import Any

import msgspec

from rankwright.service.api.security import RateLimit

CONTEXT: SpawnContext = multiprocessing.get_context("spawn")
BUFFER = 8 * 2**20  # bytes that a socket between two processes may hold
READ = 2**20  # bytes that are read at once
SEND_SECONDS = 30.0  # until a process that reads nothing counts as lost
MANY = 2**30  # connections of a process that does not accept any
N_SLOTS = 2**16  # of the shared tables; clients are found by a hash
_LENGTH, _LENGTHS = struct.Struct("<I"), struct.Struct("<II")
_ENCODER, _DECODER = msgspec.msgpack.Encoder(), msgspec.msgpack.Decoder()


def socket_pair() -> tuple[socket.socket, socket.socket]:
    """Two connected sockets with large buffers."""
    pair = socket.socketpair()
    for end in pair:
        for option in (socket.SO_SNDBUF, socket.SO_RCVBUF):
            end.setsockopt(socket.SOL_SOCKET, option, BUFFER)
    return pair


class Channel:
    """Messages on a socket, each with bytes of its own; sent by any thread, read without waiting.

    A message that was sent is in the buffer of the other process: if that process reads all there
    is, it has the message.
    """

    def __init__(self, end: socket.socket) -> None:
        end.setblocking(False)
        self.socket = end
        self._buffer, self._start, self._end = bytearray(READ), 0, 0
        self._sending = threading.Lock()

    def send(self, message: object, content: bytes = b"") -> None:
        """Send a message; OSError if the other process is gone, or reads nothing for long."""
        about = _ENCODER.encode(message)
        parts = [_LENGTHS.pack(len(about), len(content)) + about, content]
        with self._sending:
            try:
                n_sent = self.socket.sendmsg(parts)
            except BlockingIOError:
                n_sent = 0
            if n_sent < len(parts[0]) + len(content):
                self._send_rest(memoryview(b"".join(parts))[n_sent:])

    def _send_rest(self, left: memoryview) -> None:
        while left:
            if not select.select([], [self.socket], [], SEND_SECONDS)[1]:
                raise TimeoutError("another process of the service hangs")
            left = left[self.socket.send(left) :]

    def read(self) -> Iterator[tuple[Any, bytes]]:
        """The messages that have come; EOFError if the other process is gone."""
        while True:
            view = memoryview(self._buffer)
            try:
                n_read = self.socket.recv_into(view[self._end :])
            except BlockingIOError:
                return
            except OSError as error:
                raise EOFError from error
            if not n_read:
                raise EOFError
            self._end += n_read
            yield from self._whole_messages(view)
            self._make_room(view)

    def _whole_messages(self, view: memoryview) -> Iterator[tuple[Any, bytes]]:
        while self._end - self._start >= _LENGTHS.size:
            n_about, n_content = _LENGTHS.unpack_from(view, self._start)
            middle = self._start + _LENGTHS.size + n_about
            end = middle + n_content
            if end > self._end:
                return
            message = _DECODER.decode(view[self._start + _LENGTHS.size : middle])
            self._start = end
            yield message, bytes(view[middle:end])

    def _make_room(self, view: memoryview) -> None:
        """Move the beginning of a message to the front, of a larger buffer if it needs one."""
        left = bytes(view[self._start : self._end])
        size = READ
        if len(left) >= _LENGTHS.size:
            size = max(READ, 2 * (_LENGTHS.size + sum(_LENGTHS.unpack_from(left))))
        if size != len(self._buffer):
            self._buffer = bytearray(size)
        self._buffer[: len(left)] = left
        self._start, self._end = 0, len(left)

    def close(self) -> None:
        self.socket.close()


async def read_frame(reader: asyncio.StreamReader) -> Any:
    """The next message of a forwarded request; None at the end."""
    try:
        (size,) = _LENGTH.unpack(await reader.readexactly(_LENGTH.size))
        return _DECODER.decode(await reader.readexactly(size))
    except (asyncio.IncompleteReadError, ConnectionError):
        return None


def write_frame(writer: asyncio.StreamWriter, message: object) -> None:
    content = _ENCODER.encode(message)
    writer.write(_LENGTH.pack(len(content)) + content)


def _hash(client: Hashable) -> int:
    return zlib.crc32(repr(client).encode())


@dataclass
class SharedRateLimit(RateLimit):
    """A rate limit that several processes share: a table of buckets by the hash of a client."""

    table: Any = field(default_factory=lambda: CONTEXT.RawArray("d", 3 * N_SLOTS))
    lock: Any = field(default_factory=CONTEXT.Lock)

    def check(self, client: Hashable) -> None:
        number, now = _hash(client), time.monotonic()
        start = 3 * (number % N_SLOTS)
        with self.lock:
            known, left, then = self.table[start : start + 3]
            if known != number + 1:
                left, then = 2 * self.rate, now
            left = min(2 * self.rate, left + (now - then) * self.rate)
            self.table[start : start + 3] = [number + 1, max(left - 1, 0.0), now]
        self.refuse(left)


@dataclass
class ConnectionCounts:
    """Connections of each process, and of each address by the hash of it: a row a process."""

    n_processes: int
    of_addresses: Any = None
    of_processes: Any = None

    def __post_init__(self) -> None:
        if self.of_addresses is None:
            self.of_addresses = CONTEXT.RawArray("i", self.n_processes * N_SLOTS)
            self.of_processes = CONTEXT.RawArray("i", [MANY] * self.n_processes)

    def add(self, process: int, address: str, change: int) -> int:
        """Count a connection that began (1) or ended (-1); how many the address has in all."""
        slot = _hash(address) % N_SLOTS
        self.of_addresses[process * N_SLOTS + slot] += change
        if change < 0:
            self.of_processes[process] -= 1
        return sum(self.of_addresses[each * N_SLOTS + slot] for each in range(self.n_processes))

    def accept(self, process: int) -> None:
        """Count a connection that a process has just accepted."""
        self.of_processes[process] += 1

    def is_behind(self, process: int) -> bool:
        """Whether no other process has fewer connections."""
        return bool(self.of_processes[process] == min(self.of_processes))

    def begin(self, process: int) -> None:
        """A process accepts connections."""
        self.of_processes[process] = 0

    def clear(self, process: int) -> None:
        """Forget the connections of a process that ended."""
        start = process * N_SLOTS
        self.of_addresses[start : start + N_SLOTS] = [0] * N_SLOTS
        self.of_processes[process] = MANY
