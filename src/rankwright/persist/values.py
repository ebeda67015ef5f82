"""Numbers, text, lists and arrays as JSON plus named arrays, and back.

``None``, ``bool``, ``int``, finite ``float``, ``str`` and lists are themselves in JSON. Everything
else is an object with one key, which says what it is::

    {"array": "model.coef_"}                     an array of the file, by its name
    {"text": {"bytes": ..., "ends": ..., ...}}   an array of text: two arrays of the file
    {"float": "nan" | "inf" | "-inf"}            a float that JSON has no word for
    {"tuple": [...]}, {"dict": {...}}            containers that JSON would confuse with others
    {"model": ...}, {"state": ...}, {"part": ...}    nodes, which ``kinds`` knows to build

So no plain value can be mistaken for a tagged one, and a reader knows every tag there is.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rankwright.exceptions import ParameterError
from rankwright.persist.container import store
from rankwright.persist.manifest import Refused, Stored

__all__ = ["Packer", "Unpacker"]

Array = NDArray[Any]
MAX_DEPTH = 48
_ODD_FLOATS = {"nan": math.nan, "inf": math.inf, "-inf": -math.inf}


class Packer:
    """Takes values apart. Equal arrays are kept once, whoever holds them.

    Parameters
    ----------
    node : function from (packer, object, place) to a tagged node, or None for an unknown object

    >>> packer = Packer()
    >>> packer.pack({"a": (1, 2.5)}, "model")
    {'dict': {'a': {'tuple': [1, 2.5]}}}
    >>> packer.pack([np.ones(2), np.ones(2)], "model")
    [{'array': 'model.0'}, {'array': 'model.0'}]
    """

    def __init__(self, node: Callable[[Packer, Any, str], Any] | None = None) -> None:
        self.arrays: dict[str, Array] = {}
        self.stored: dict[str, Stored] = {}
        self._names: dict[tuple[Any, ...], str] = {}
        self._node = node

    def pack(self, value: Any, place: str) -> Any:
        """A value as JSON; ``place`` says where it stands, for messages and array names."""
        if isinstance(value, np.generic) or (isinstance(value, np.ndarray) and value.ndim == 0):
            value = value.item()
        if value is None or isinstance(value, bool | int | str):
            return value
        if isinstance(value, float):
            return value if math.isfinite(value) else {"float": str(value)}
        if isinstance(value, np.ndarray):
            return self._array(value, place)
        if isinstance(value, list | tuple):
            items = [self.pack(item, f"{place}.{i}") for i, item in enumerate(value)]
            return {"tuple": items} if isinstance(value, tuple) else items
        if isinstance(value, dict) and all(isinstance(key, str) for key in value):
            return {"dict": {key: self.pack(item, f"{place}.{key}") for key, item in value.items()}}
        return self._other(value, place)

    def _other(self, value: Any, place: str) -> Any:
        found = self._node(self, value, place) if self._node else None
        if found is not None:
            return found
        if callable(value) and not isinstance(value, type):
            name = getattr(value, "__name__", type(value).__name__)
            raise ParameterError(
                f"save: {place} is the function {name!r}, and a model file holds no code. Use a "
                "named option instead (for a kernel: 'linear', 'poly', 'rbf' or 'precomputed')."
            )
        raise ParameterError(
            f"save: {place} is a {type(value).__name__}, which a model file cannot hold. It holds "
            "numbers, text, lists, arrays, and rankwright's own rankers and their parts."
        )

    def _array(self, array: Array, place: str) -> Any:
        if array.dtype.kind in "UO":
            return self._text(array, place)
        try:
            plain, entry = store(array)
        except TypeError:
            raise ParameterError(
                f"save: {place} is an array of {array.dtype}, which a model file cannot hold. It "
                "holds float64, float32, int64, int32, uint8, bool and text."
            ) from None
        key = (entry.dtype, tuple(entry.shape), entry.order, entry.sha256)
        name = self._names.setdefault(key, place)
        self.arrays.setdefault(name, plain)
        self.stored.setdefault(name, entry)
        return {"array": name}

    def _text(self, array: Array, place: str) -> Any:
        texts = array.ravel().tolist()
        if not all(isinstance(text, str) for text in texts):
            raise ParameterError(
                f"save: {place} is an array of Python objects. A model file holds numbers and text."
            )
        parts = [text.encode(errors="surrogatepass") for text in texts]
        ends = np.cumsum([len(part) for part in parts], dtype=np.int64)
        return {
            "text": {
                "bytes": self._array(np.frombuffer(b"".join(parts), np.uint8), f"{place}.bytes"),
                "ends": self._array(ends, f"{place}.ends"),
                "shape": list(array.shape),
            }
        }


class Unpacker:
    """Puts values together again.

    Parameters
    ----------
    arrays : the arrays of the file, by name
    nodes : tag -> function from (unpacker, content) to an object
    own : whether the values are to own their arrays, so that each may be changed without the others
        (a model that goes on learning); otherwise equal arrays are one (a scorer)
    """

    def __init__(
        self,
        arrays: Mapping[str, Array],
        nodes: Mapping[str, Callable[[Unpacker, Any], Any]],
        *,
        own: bool,
    ) -> None:
        self._arrays, self._nodes, self._own, self._depth = arrays, nodes, own, 0
        self._given: set[str] = set()  # names of the arrays handed out so far

    def unpack(self, value: Any) -> Any:
        """A value from its JSON form."""
        if not isinstance(value, list | dict):
            return value
        if self._depth >= MAX_DEPTH:
            raise Refused(f"its values are nested more than {MAX_DEPTH} deep")
        self._depth += 1
        try:
            if isinstance(value, list):
                return [self.unpack(item) for item in value]
            return self._tagged(value)
        finally:
            self._depth -= 1

    def _tagged(self, value: dict[str, Any]) -> Any:
        tag, content = _split(value)
        if tag in self._nodes:
            return self._nodes[tag](self, content)
        if tag == "array" and isinstance(content, str) and content in self._arrays:
            return self._array(content)
        if tag == "float" and isinstance(content, str) and content in _ODD_FLOATS:
            return _ODD_FLOATS[content]
        if tag == "tuple" and isinstance(content, list):
            return tuple(self.unpack(item) for item in content)
        if tag == "dict" and isinstance(content, dict):
            return {key: self.unpack(item) for key, item in content.items()}
        if tag == "text" and isinstance(content, dict):
            return self._text(**content)
        raise Refused(f"its manifest holds a value that cannot be read ({str(value)[:60]})")

    def _array(self, name: str) -> Array:
        array, first = self._arrays[name], name not in self._given
        self._given.add(name)
        if not self._own:
            return array
        if not first:
            return array.copy(order="K")
        array.setflags(write=True)
        return array

    def _text(self, *, bytes: Any, ends: Any, shape: list[int]) -> Array:
        raw, ends = self.unpack(bytes), self.unpack(ends)
        if raw.dtype != np.uint8 or ends.dtype != np.int64 or raw.ndim != 1 or ends.ndim != 1:
            raise Refused("a text of its manifest is not made of bytes")
        starts = np.concatenate([np.zeros(1, np.int64), ends])
        if (np.diff(starts) < 0).any() or starts[-1] != len(raw):
            raise Refused("a text of its manifest has its ends in disorder")
        whole = raw.tobytes()
        pieces = zip(starts[:-1].tolist(), ends.tolist(), strict=True)
        texts = [whole[start:end].decode(errors="surrogatepass") for start, end in pieces]
        # Objects, not "U": one long text among many short ones would make "U" take any memory.
        return np.array(texts, dtype=np.object_).reshape(shape)


def _split(value: dict[str, Any]) -> tuple[str, Any]:
    if len(value) != 1:
        raise Refused("its manifest holds an object without a tag")
    return next(iter(value.items()))
