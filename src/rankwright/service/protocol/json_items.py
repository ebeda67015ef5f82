"""The usual JSON body of ``/v1/rank``, decoded to a table of numbers without an object for each.

A body of 100 items with 46 features holds 4,600 numbers. Making a Python object of each takes most
of the time of a request. The kernel here reads them in half the time or less. It knows one form
only, ``{"items": [{"id": ..., "features": [...]}, ...], ...}``. msgspec decodes everything else,
and again whatever is refused, so that errors do not depend on which of the two reads a body.
"""

from __future__ import annotations

import re
import threading
from typing import Any

import msgspec
import numpy as np

from rankwright.scoring.traversal import can_compile
from rankwright.service.protocol.types import Id, RankRequest

BYTES_TO_LOAD = 2 * 2**20  # JSON after which the kernel is loaded: numba takes half a second
_ITEMS = re.compile(rb'"items"[ \t\n\r]*:[ \t\n\r]*(?=\[)')
_FAR = 4096  # bytes in which the items begin
_REQUEST = msgspec.json.Decoder(RankRequest)
_IDS = msgspec.json.Decoder(list[Id])
_NAMES = msgspec.json.Decoder(list[str])


class ItemReader:
    """Reads bodies with the kernel, once there were enough of them to load it.

    The kernel is loaded in a thread of its own; no request waits for it. ``kernels`` is its module,
    or None.
    """

    def __init__(self) -> None:
        self.kernels: Any = None
        self._n_bytes = 0

    def read(self, body: bytes) -> RankRequest | None:
        """The request with its items as ``ids`` and ``float64`` or ``columns``, or None."""
        if self.kernels is None:
            self._count(len(body))
            return None
        try:
            return self._read(body)
        except (msgspec.DecodeError, UnicodeDecodeError):  # msgspec says where
            return None

    def load(self) -> None:
        """Load the kernels now."""
        from rankwright.service.protocol import _kernels

        _kernels.read_items(np.frombuffer(b"[}", np.uint8), 0, _kernels.Table(*_buffers(2)))
        _kernels.pack_millionths(np.zeros(1), np.zeros(1, np.int32))
        self.kernels = _kernels

    def _count(self, n_bytes: int) -> None:
        before, self._n_bytes = self._n_bytes, self._n_bytes + n_bytes
        if before < BYTES_TO_LOAD <= self._n_bytes and can_compile():
            threading.Thread(target=self.load, name="rankwright-kernel", daemon=True).start()

    def _read(self, body: bytes) -> RankRequest | None:
        match = _ITEMS.search(body, 0, _FAR)
        if match is None or body[-1:] != b"}":
            return None
        table = self.kernels.Table(*_buffers(len(body)))
        text = np.frombuffer(body, np.uint8)
        n_items, n_features, end, n_ids, n_names = self.kernels.read_items(text, match.end(), table)
        head, tail = body[: match.end()], body[end:]
        if not n_items or b'"items"' in tail or b"\\" in head or b"\\" in tail:
            return None
        request = _REQUEST.decode(b"%b[]%b" % (head, tail))
        others = request.ids, request.columns, request.float32, request.float64
        if request.items != [] or others != (None,) * 4 or request.explain:
            return None
        request.items, request.ids = None, _decoded(_IDS, table.ids, n_ids)
        values = table.values[: n_items * n_features]
        if n_names == 1:
            request.float64 = values.tobytes()
            return request
        columns = values.reshape(n_items, n_features).T
        request.columns = dict(zip(_decoded(_NAMES, table.names, n_names), columns, strict=True))
        return request if len(request.columns) == n_features else None


def _buffers(n_bytes: int) -> tuple[Any, Any, Any]:
    """Room for the ids, the names and the values of a body."""
    text = np.uint8
    return np.empty(n_bytes, text), np.empty(n_bytes, text), np.empty(n_bytes // 2 + 1)


def _decoded(decoder: Any, text: Any, size: int) -> Any:
    text[size - 1] = ord("]")
    return decoder.decode(text[:size].data)
