"""Values, scorers and transforms as JSON plus named arrays, and back; NumPy only."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping
from dataclasses import MISSING, fields
from functools import cache
from types import UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

import msgspec
import numpy as np

from rankwright.exceptions import ParameterError
from rankwright.persist.format import Array, Refused, ScorerNode, StateNode, StoredArray, store
from rankwright.scoring import kernel, linear, network, ordinal, sums, transforms, trees
from rankwright.scoring.base import Scorer, State, Transform

# The closed table: a name in a model file is looked up here; it never imports anything.
KINDS: dict[str, type[State]] = {
    cls.kind: cls
    for module in (kernel, linear, network, ordinal, sums, transforms, trees)
    for cls in vars(module).values()
    if getattr(cls, "__module__", "") == module.__name__ and hasattr(cls, "kind")
}

type_hints = cache(get_type_hints)
Nodes = Mapping[str, Callable[["Unpacker", Any], Any]]

MAX_DEPTH = 48
MAX_NODES = 2**16  # objects in a model
MAX_REPEATED = 2**26  # bytes of arrays that a model may refer to again: each may become a copy
_REFERENCE = 2**10  # bytes that a repeated reference counts for at least
_ODD_FLOATS = {"nan": math.nan, "inf": math.inf, "-inf": -math.inf}


class Packer:
    """Turns values into JSON and named arrays; equal arrays are stored once.

    A section (the model, its scorer) refers to the same arrays again only within the limit that
    :class:`Unpacker` sets; beyond it they are stored again. ``node`` makes a tagged node of
    (packer, object, path), or None of an unknown object.

    >>> packer = Packer()
    >>> packer.pack({"a": (1, 2.5)}, "model")
    {'dict': {'a': {'tuple': [1, 2.5]}}}
    >>> packer.pack([np.ones(2), np.ones(2)], "model")
    [{'array': 'model.0'}, {'array': 'model.0'}]
    """

    def __init__(self, node: Callable[[Packer, Any, str], Any] | None = None) -> None:
        self.arrays: dict[str, Array] = {}
        self.stored: dict[str, StoredArray] = {}
        self._names: dict[bytes, str] = {}
        self._node = node
        self.start_section()

    def start_section(self) -> None:
        """Count repeated references from zero, as the reader of the section does."""
        self._used: set[str] = set()
        self._repeated = 0

    def pack(self, value: object, path: str) -> Any:
        """A value as JSON; its path in the model names its arrays, and it in messages."""
        if isinstance(value, np.generic) or (isinstance(value, np.ndarray) and value.ndim == 0):
            value = value.item()
        if value is None or isinstance(value, bool | int | str):
            return value
        if isinstance(value, float):
            return value if math.isfinite(value) else {"float": str(value)}
        if isinstance(value, np.ndarray):
            return self._array(value, path)
        if isinstance(value, set | frozenset):
            value = tuple(sorted(value))
        if isinstance(value, list | tuple):
            items = [self.pack(item, f"{path}.{i}") for i, item in enumerate(value)]
            return {"tuple": items} if isinstance(value, tuple) else items
        if isinstance(value, dict) and all(isinstance(key, str) for key in value):
            return {"dict": {key: self.pack(item, f"{path}.{key}") for key, item in value.items()}}
        return self._other(value, path)

    def _other(self, value: object, path: str) -> Any:
        node = self._node(self, value, path) if self._node else None
        if node is not None:
            return node
        if callable(value) and not isinstance(value, type):
            name = getattr(value, "__name__", type(value).__name__)
            raise ParameterError(
                f"save: {path} is the function {name!r}, and a model file contains no code. Use a "
                "named option instead (for a kernel: 'linear', 'poly', 'rbf' or 'precomputed')."
            )
        raise ParameterError(
            f"save: {path} is a {type(value).__name__}, which a model file cannot hold. It holds "
            "numbers, text, lists, arrays, and rankwright's own rankers and their parts."
        )

    def _array(self, array: Array, path: str) -> Any:
        if array.dtype.kind in "UO":
            return self._text(array, path)
        try:
            plain, entry = store(array)
        except TypeError:
            raise ParameterError(
                f"save: {path} is an array of {array.dtype}, which a model file cannot hold. It "
                "holds float64, float32, int64, int32, uint8, bool and text."
            ) from None
        name = self._names.setdefault(msgspec.json.encode(entry), path)
        if name in self._used:
            cost = max(plain.nbytes, _REFERENCE)
            name = name if self._repeated + cost <= MAX_REPEATED else path
            self._repeated += cost if name != path else 0
        self._used.add(name)
        self.arrays.setdefault(name, plain)
        self.stored.setdefault(name, entry)
        return {"array": name}

    def _text(self, array: Array, path: str) -> Any:
        texts = array.ravel().tolist()
        if not all(isinstance(text, str) for text in texts):
            raise ParameterError(
                f"save: {path} is an array of Python objects. A model file holds numbers and text."
            )
        parts = [text.encode(errors="surrogatepass") for text in texts]
        raw = self._array(np.frombuffer(b"".join(parts), np.uint8), f"{path}.bytes")
        ends = self._array(np.cumsum([*map(len, parts)], dtype=np.int64), f"{path}.ends")
        return {"text": {"bytes": raw, "ends": ends, "shape": list(array.shape)}}


class Unpacker:
    """Rebuilds values from JSON and arrays; ``nodes`` maps a tag to the builder of its objects.

    With ``own`` each value gets its own array, so that a model can go on learning; otherwise equal
    arrays are shared and read-only (a scorer). A file is refused before its references take much
    more memory or time than its size suggests: the number of objects, and the bytes of arrays that
    are referred to again, are limited.
    """

    def __init__(self, arrays: Mapping[str, Array], nodes: Nodes, *, own: bool) -> None:
        self._arrays, self._nodes, self._own, self._depth = arrays, nodes, own, 0
        self._used: set[str] = set()  # names of the arrays returned so far
        self._repeated = self._n_nodes = 0

    def unpack(self, value: object) -> Any:
        if not isinstance(value, list | dict):
            return value
        if self._depth >= MAX_DEPTH:
            raise Refused(f"its values are nested more than {MAX_DEPTH} deep")
        self._depth += 1
        unpacked = [*map(self.unpack, value)] if isinstance(value, list) else self._tagged(value)
        self._depth -= 1
        return unpacked

    def _tagged(self, value: dict[str, Any]) -> Any:
        if len(value) != 1:
            raise Refused(f"its manifest holds an object of {len(value)} keys where a tag belongs")
        tag, content = next(iter(value.items()))
        if tag in self._nodes:
            self._n_nodes += 1
            if self._n_nodes > MAX_NODES:
                raise Refused(f"it holds more than {MAX_NODES:,} objects")
            return self._nodes[tag](self, content)
        if tag == "array" and isinstance(content, str) and content in self._arrays:
            return self._array(content)
        if tag == "float" and isinstance(content, str) and content in _ODD_FLOATS:
            return _ODD_FLOATS[content]
        if tag == "tuple" and isinstance(content, list):
            return tuple(map(self.unpack, content))
        if tag == "dict" and isinstance(content, dict):
            return {key: self.unpack(item) for key, item in content.items()}
        if tag == "text" and isinstance(content, dict):
            return self._text(**content)
        raise Refused(f"its manifest holds a value that cannot be read ({str(value)[:60]})")

    def _array(self, name: str) -> Array:
        array, is_repeated = self._arrays[name], name in self._used
        if is_repeated:
            self._repeated += max(array.nbytes, _REFERENCE)
            if self._repeated > MAX_REPEATED:
                raise Refused(
                    f"its values refer to the same arrays again and again, to more than "
                    f"{MAX_REPEATED >> 20} MiB in all"
                )
        self._used.add(name)
        if self._own and is_repeated:
            return array.copy(order="K")
        if self._own:
            array.setflags(write=True)
        return array

    def _text(self, *, bytes: Array, ends: Array, shape: list[int]) -> Array:
        raw, ends = self.unpack(bytes), self.unpack(ends)
        if raw.dtype != np.uint8 or ends.dtype != np.int64 or raw.ndim != 1 or ends.ndim != 1:
            raise Refused("an array of texts is not stored as bytes and their ends")
        starts = np.concatenate([np.zeros(1, np.int64), ends])
        if (np.diff(starts) < 0).any() or starts[-1] != len(raw):
            raise Refused("an array of texts has ends that do not ascend to its length")
        whole = raw.tobytes()
        pieces = zip(starts[:-1].tolist(), ends.tolist(), strict=True)
        texts = [whole[start:end].decode(errors="surrogatepass") for start, end in pieces]
        # Objects, not "U": dtype "U" takes the memory of the longest text for each of them.
        return np.array(texts, dtype=np.object_).reshape(shape)


def pack_state(packer: Packer, state: State, path: str) -> StateNode:
    values = {name: packer.pack(value, f"{path}.{name}") for name, value in state.values().items()}
    return StateNode(state.kind, values)


def build_state(unpacker: Unpacker, content: object) -> State:
    """The scorer or transform that a node describes; types are checked here, values by itself."""
    node = content if isinstance(content, StateNode) else msgspec.convert(content, StateNode)
    if node.kind not in KINDS:
        raise Refused(f"it holds a scorer of the unknown kind {node.kind[:40]!r}")
    cls = KINDS[node.kind]
    declared = {field.name: field for field in fields(cls)}  # type: ignore[arg-type]
    hints = type_hints(cls)
    values = {name: unpacker.unpack(value) for name, value in node.values.items()}
    for name, field in declared.items():
        if name not in values and field.default is MISSING:
            raise Refused(f"its scorer {node.kind!r} has no {name}")
    for name, value in values.items():
        if name not in declared or not fits(value, hints[name]):
            raise Refused(f"its scorer {node.kind!r} has a {name[:40]} of the wrong type")
    return cls(**values)


def build_served(unpacker: Unpacker, served: ScorerNode) -> tuple[tuple[Transform, ...], Scorer]:
    """Transforms and scorer; each gives the columns that the next one needs."""
    transforms = tuple(build_state(unpacker, node) for node in served.transforms)
    scorer = build_state(unpacker, served.scorer)
    if not isinstance(scorer, Scorer) or not all(isinstance(t, Transform) for t in transforms):
        raise Refused("its scorer or one of its transforms is of the wrong kind")
    steps: list[Any] = [*transforms, scorer]
    if any(a.n_outputs != b.n_features for a, b in itertools.pairwise(steps)):
        raise Refused("its transforms and its scorer disagree on the number of features")
    return transforms, scorer  # type: ignore[return-value]


def fits(value: object, hint: Any) -> bool:
    """Whether a value is of the annotated type of a field.

    >>> fits(1, int), fits(True, int), fits(1, float), fits(None, float | None)
    (True, False, True, True)
    >>> fits(np.zeros(2), np.typing.NDArray[np.int64])
    False
    """
    origin, arguments = get_origin(hint), get_args(hint)
    if hasattr(origin, "__value__"):  # NDArray is a type alias in NumPy from 2.5 on
        return fits(value, origin.__value__[arguments])
    if origin in (Union, UnionType):
        return any(fits(value, option) for option in arguments)
    if origin is np.ndarray:  # of dtype[float64] or dtype[floating[Any]]
        scalar: Any = get_args(arguments[1])[0]
        return isinstance(value, np.ndarray) and (
            scalar is Any or issubclass(value.dtype.type, get_origin(scalar) or scalar)
        )
    if origin is tuple:  # of any length, such as tuple[Scorer, ...]
        return isinstance(value, tuple) and all(fits(item, arguments[0]) for item in value)
    if hint is float:
        return type(value) in (float, int)
    return type(value) is hint if hint in (int, bool, str) else isinstance(value, hint)
