"""One JSON object per line: the same strict parser for tables, logs and logged features."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator
from typing import Any

from rankwright.data.io.files import Text

_SURROGATE = re.compile("[\\ud800-\\udfff]")


def json_rows(text: Text) -> Iterator[tuple[int, dict[str, Any]]]:
    """The object of each line that is not blank, and the number of the line from 1.

    Refused with their line: a key that occurs twice, numbers beyond float64 and int64 (``1e400``),
    NaN, half of a surrogate pair, an empty object, and what is not a JSON object.

    >>> list(json_rows(Text("a.jsonl", b'{"a": 1}\\n\\n{"a": 2.5}')))
    [(1, {'a': 1}), (3, {'a': 2.5})]
    """
    n_rows = 0
    for number, line in enumerate(text.decode().split("\n"), start=1):
        if line.strip(" \t\r"):
            n_rows += 1
            yield number, parse_row(text, number, line)
    if n_rows == 0:
        text.refuse(1, 1, "no line has a JSON object", "write one object per line")


def parse_row(text: Text, number: int, line: str) -> dict[str, Any]:
    """The object that a line holds."""
    try:
        row = DECODER.decode(line.strip(" \t\r"))
    except json.JSONDecodeError as error:
        text.refuse(number, error.colno, f"not JSON ({error.msg})", "write one object per line")
    except RecursionError:
        text.refuse(number, 1, "nested too deeply", "write one flat object per line")
    except _NotAccepted as error:
        text.refuse(number, line.find(error.token) + 1, error.reason, error.fix)
    if not isinstance(row, dict) or not row:
        reason = "an object without fields" if row == {} else "not a JSON object"
        text.refuse(number, 1, reason, 'write {"name": value, ...} on each line')
    if "\\u" in line and _has_surrogate(row):
        at = line.find("\\u") + 1
        text.refuse(number, at, "half of a surrogate pair, which is no character", "remove it")
    return row


class _NotAccepted(ValueError):
    """A token that is valid JSON, or nearly, and no value that data can have."""

    def __init__(self, token: str, reason: str, fix: str) -> None:
        super().__init__(token)
        self.token, self.reason, self.fix = token, reason, fix


def _constant(token: str) -> Any:
    raise _NotAccepted(token, f"{token} is not JSON", "write null for a missing value")


def _float(token: str) -> float:
    value = float(token)
    if math.isinf(value):
        raise _NotAccepted(token, f"{_short(token)} is beyond float64", "write a finite number")
    return value


def _int(token: str) -> int:
    if len(token) > 20 or not -(2**63) <= int(token) < 2**63:
        fix = "write ids of more than 18 digits as text, and large values as 1.5e30"
        raise _NotAccepted(token, f"{_short(token)} is beyond 64 bits", fix)
    return int(token)


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    row = dict(pairs)
    if len(row) < len(pairs):
        names = [name for name, _ in pairs]
        name = next(name for name in names if names.count(name) > 1)
        raise _NotAccepted(json.dumps(name), f'key "{_short(name)}" occurs twice', "keep one")
    return row


def _short(token: str) -> str:
    return token if len(token) <= 40 else token[:40] + "..."


def _has_surrogate(value: object) -> bool:
    if isinstance(value, str):
        return _SURROGATE.search(value) is not None
    if isinstance(value, dict):
        return any(map(_has_surrogate, [*value, *value.values()]))
    return isinstance(value, list) and any(map(_has_surrogate, value))


DECODER = json.JSONDecoder(
    object_pairs_hook=_object, parse_constant=_constant, parse_float=_float, parse_int=_int
)
