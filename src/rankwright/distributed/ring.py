"""Processes that add up their histograms over sockets, without a scheduler in between.

Each process is connected to every other one. Features are shared out in blocks of four: a process
gets the sums of its share from all others, searches it for the best split, and tells the others.
Only integers are added, so no order of arrival changes a bit.
"""

from __future__ import annotations

import hmac
import selectors
import socket
import ssl
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, ClassVar
from urllib.parse import urlsplit

import numpy as np
from numpy.typing import NDArray

from rankwright._typing import FloatArray, IntArray
from rankwright.rankers.boosting.grower import Best

TIMEOUT = 300.0  # seconds without a byte from any other process before the ring is given up
BUFFER = 1 << 22  # bytes that a socket holds: more than the histograms of a leaf usually take
GREETING = 40  # bytes: the token of the fit, and the rank of the process
BLOCKED = (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError)
Selector: Any = getattr(selectors, "PollSelector", selectors.SelectSelector)  # needs no file


class Door:
    """Where a process waits for the others; opened before any of them knows where.

    Parameters
    ----------
    worker : the Dask worker of this process, or None: its host, its TLS, and the range of ports in
        Dask's setting ``rankwright.ports`` (``"9000:9100"``) are used
    """

    def __init__(self, worker: Any = None) -> None:
        address = urlsplit(worker.address if worker is not None else "inproc://")
        self._host = address.hostname if address.scheme in ("tcp", "tls") else "127.0.0.1"
        self._accepting = self._connecting = None
        if address.scheme == "tls":
            self._accepting = worker.security.get_listen_args("worker")["ssl_context"]
            self._connecting = worker.security.get_connection_args("worker")["ssl_context"]
        self._socket = _bound(str(self._host), _ports() if worker is not None else range(1))
        self._socket.listen(1024)

    @property
    def address(self) -> tuple[str, int]:
        return str(self._host), int(self._socket.getsockname()[1])

    def connect(self, rank: int, addresses: Sequence[tuple[str, int]], token: bytes) -> Ring:
        """Connect to the processes before this one, and wait for those after it."""
        peers: list[Any] = [None] * len(addresses)
        try:
            for other, address in enumerate(addresses[:rank]):
                peer = socket.create_connection(address, TIMEOUT)
                if self._connecting is not None:
                    peer = self._connecting.wrap_socket(peer, server_hostname=address[0])
                peer.sendall(token + rank.to_bytes(8, "little"))
                peers[other] = peer
            self._socket.settimeout(TIMEOUT)
            while None in peers[rank + 1 :]:
                peer, _ = self._socket.accept()
                peer.settimeout(TIMEOUT)
                if self._accepting is not None:
                    peer = self._accepting.wrap_socket(peer, server_side=True)
                greeting = _read(peer, GREETING)
                other = int.from_bytes(greeting[32:], "little")
                known = hmac.compare_digest(greeting[:32], token) and rank < other < len(peers)
                if known and peers[other] is None:
                    peers[other] = peer
                else:  # not one of this fit
                    peer.close()
        except BaseException:
            for peer in peers:
                if peer is not None:
                    peer.close()
            raise
        finally:
            self.close()
        return Ring(rank, peers)

    def close(self) -> None:
        self._socket.close()


def _ports() -> range:
    from dask import config

    first, _, last = str(config.get("rankwright.ports", "0")).partition(":")
    return range(int(first), int(last or first) + 1)


def _bound(host: str, ports: range) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    for port in ports:
        listener = socket.socket(family, socket.SOCK_STREAM)
        try:
            listener.bind((host, port))
            return listener
        except OSError as error:
            listener.close()
            fault = error
    raise OSError(f"no port of {ports.start} to {ports.stop - 1} is free on {host} ({fault})")


def _read(peer: socket.socket, n_bytes: int) -> bytes:
    content = b""
    while len(content) < n_bytes:
        part = peer.recv(n_bytes - len(content))
        if not part:
            raise ConnectionError("another process of the fit has closed its connection")
        content += part
    return content


class Ring:
    """The :class:`~rankwright.rankers.boosting.grower.Peers` of a process.

    Parameters
    ----------
    rank : the number of this process
    peers : the sockets of all processes, None for this one
    """

    total_bytes: ClassVar[int] = 0  # sent by all rings of this process so far

    def __init__(self, rank: int, peers: Sequence[Any]) -> None:
        self.rank, self._peers, self.n_bytes = rank, list(peers), 0
        self._others = [number for number, peer in enumerate(peers) if peer is not None]
        for number in self._others:
            peer = self._peers[number]
            for option in (socket.SO_SNDBUF, socket.SO_RCVBUF):
                peer.setsockopt(socket.SOL_SOCKET, option, BUFFER)
            with suppress(OSError):
                peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            peer.setblocking(False)

    def shut_down(self) -> None:
        """End the connections while another thread uses them: it gets a ConnectionError."""
        for number in self._others:
            with suppress(OSError):
                self._peers[number].shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        for number in self._others:
            self._peers[number].close()

    def maximum(self, values: FloatArray) -> FloatArray:
        largest: FloatArray = np.max(self._gathered(values), axis=0)
        return largest

    def total(self, values: IntArray) -> IntArray:
        added: IntArray = np.sum(self._gathered(values), axis=0)
        return added

    def sum_histograms(self, sums: IntArray, starts: IntArray) -> slice:
        cuts = self._shares(len(starts) // 4)
        places = starts[4 * cuts]
        own = sums[places[self.rank] : places[self.rank + 1]]
        parts = {number: np.empty_like(own) for number in self._others}
        sent = {number: sums[places[number] : places[number + 1]] for number in self._others}
        self._exchange(sent, parts)
        for part in parts.values():
            own += part
        return slice(4 * int(cuts[self.rank]), 4 * int(cuts[self.rank + 1]))

    def best_splits(self, best: Best) -> None:
        fields = best[: best._fields.index("leader")]
        cuts = self._shares(len(best.gain))
        width = sum(field[:1].nbytes for field in fields)
        mine = _packed(fields, slice(cuts[self.rank], cuts[self.rank + 1]))
        parts = {
            number: np.empty(width * int(cuts[number + 1] - cuts[number]), np.uint8)
            for number in self._others
        }
        self._exchange(dict.fromkeys(self._others, mine), parts)
        for number, part in parts.items():
            _unpack(part, fields, slice(cuts[number], cuts[number + 1]))

    def _shares(self, n_blocks: int) -> IntArray:
        """Where the blocks of features of each process begin, and where the last ones end."""
        return np.arange(len(self._peers) + 1) * n_blocks // len(self._peers)

    def _gathered(self, values: object) -> list[Any]:
        parts = {number: np.empty_like(values) for number in self._others}
        self._exchange(dict.fromkeys(self._others, values), parts)
        return [*parts.values(), values]

    def _exchange(self, sent: dict[int, Any], received: dict[int, Any]) -> None:
        """Send an array to each other process while those of the others are received."""
        out = {number: _bytes(array) for number, array in sent.items()}
        into = {number: _bytes(array) for number, array in received.items()}
        n_bytes = sum(map(len, out.values()))
        self.n_bytes += n_bytes
        Ring.total_bytes += n_bytes
        for number in list(out):
            self._send(number, out)
        while out or into:
            for number in list(into):  # TLS may hold bytes, and the socket itself be silent
                self._receive(number, into)
            self._wait(out, into)
            for number in list(out):
                self._send(number, out)

    def _wait(self, out: dict[int, memoryview], into: dict[int, memoryview]) -> None:
        selector = Selector()
        for number in out.keys() | into.keys():
            events = selectors.EVENT_READ * (number in into) | selectors.EVENT_WRITE * (
                number in out
            )
            selector.register(self._peers[number], events)
        if selector.get_map() and not selector.select(TIMEOUT):
            raise TimeoutError(f"no byte from other processes of the fit in {TIMEOUT:g} s")

    def _send(self, number: int, out: dict[int, memoryview]) -> None:
        with suppress(*BLOCKED):
            while out[number]:
                out[number] = out[number][self._peers[number].send(out[number]) :]
            del out[number]

    def _receive(self, number: int, into: dict[int, memoryview]) -> None:
        with suppress(*BLOCKED):
            while into[number]:
                n = self._peers[number].recv_into(into[number])
                if n == 0:
                    raise ConnectionError("another process of the fit has closed its connection")
                into[number] = into[number][n:]
            del into[number]


def _bytes(array: NDArray[Any]) -> memoryview:
    plain: Any = np.ascontiguousarray(array)
    return memoryview(plain).cast("B") if plain.size else memoryview(b"")


def _packed(fields: Sequence[Any], rows: slice) -> Any:
    return np.concatenate([np.ascontiguousarray(f[rows]).view(np.uint8).ravel() for f in fields])


def _unpack(content: NDArray[np.uint8], fields: Sequence[Any], rows: slice) -> None:
    start = 0
    for field in fields:
        part = field[rows]
        part[...] = content[start : start + part.nbytes].view(field.dtype).reshape(part.shape)
        start += part.nbytes
