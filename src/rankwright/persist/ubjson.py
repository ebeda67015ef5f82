"""UBJSON, as XGBoost writes it: a decoder with limits."""

from __future__ import annotations

import struct
from typing import Any

import numpy as np

from rankwright.persist.format import Refused

MAX_DEPTH, MAX_VALUES = 64, 2**25
_NUMBERS = {"i": ">i1", "U": ">u1", "I": ">i2", "l": ">i4", "L": ">i8", "d": ">f4", "D": ">f8"}
_CONSTANTS = {"Z": None, "T": True, "F": False}


def decode_ubjson(raw: bytes) -> Any:
    """The value that a UBJSON text holds.

    >>> decode_ubjson(b"{i\\x01a[$U#i\\x02\\x05\\x06i\\x01b[TZ]}")
    {'a': [5, 6], 'b': [True, None]}
    """
    decoder = _Decoder(raw)
    try:
        value = decoder.value(decoder.mark(), 0)
    except (IndexError, struct.error, UnicodeDecodeError, ValueError) as error:
        raise Refused("its UBJSON is damaged or cut off") from error
    return value


class _Decoder:
    def __init__(self, raw: bytes) -> None:
        self.raw, self.place, self.n_values = raw, 0, 0

    def mark(self) -> str:
        self.place += 1
        return chr(self.raw[self.place - 1])

    def take(self, size: int) -> bytes:
        if size < 0 or self.place + size > len(self.raw):
            raise IndexError
        self.place += size
        return self.raw[self.place - size : self.place]

    def count(self) -> int:
        mark = self.mark()
        if mark not in "iUIlL":
            raise ValueError
        value = int(self.value(mark, 0))
        if value < 0:
            raise ValueError
        return value

    def value(self, mark: str, depth: int) -> Any:
        self.n_values += 1
        if depth > MAX_DEPTH or self.n_values > MAX_VALUES:
            raise Refused("its UBJSON is too deep or holds too many values")
        if mark in _NUMBERS:
            dtype = np.dtype(_NUMBERS[mark])
            return np.frombuffer(self.take(dtype.itemsize), dtype)[0].item()
        if mark in _CONSTANTS:
            return _CONSTANTS[mark]
        if mark == "S":
            return self.take(self.count()).decode()
        if mark == "C":
            return self.take(1).decode()
        if mark == "[":
            return self.array(depth)
        if mark == "{":
            return self.object(depth)
        raise ValueError

    def shape(self) -> tuple[str | None, int | None]:
        """The type and the number of values, where a container says them."""
        kind, size = None, None
        if chr(self.raw[self.place]) == "$":
            self.place += 1
            kind = self.mark()
        if chr(self.raw[self.place]) == "#":
            self.place += 1
            size = self.count()
        if kind is not None and size is None:
            raise ValueError
        return kind, size

    def array(self, depth: int) -> list[Any]:
        kind, size = self.shape()
        if kind in _NUMBERS and size is not None:
            dtype = np.dtype(_NUMBERS[kind])
            return list(np.frombuffer(self.take(size * dtype.itemsize), dtype).tolist())
        values: list[Any] = []
        while size is None or len(values) < size:
            mark = kind or self.mark()
            if size is None and mark == "]":
                break
            values.append(self.value(mark, depth + 1))
        return values

    def object(self, depth: int) -> dict[str, Any]:
        kind, size = self.shape()
        values: dict[str, Any] = {}
        while size is None or len(values) < size:
            if size is None and chr(self.raw[self.place]) == "}":
                self.place += 1
                break
            key = self.take(self.count()).decode()
            if key in values:
                raise ValueError
            values[key] = self.value(kind or self.mark(), depth + 1)
        return values
