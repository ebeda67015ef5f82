"""Damaged files: noticed every time, whatever the damage."""

from __future__ import annotations

import os
import random
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler, StandardScaler

import rankwright as rw

# 2,000 at every push; RANKWRIGHT_DAMAGED_FILES=100000 for a long night.
N_FILES = int(os.environ.get("RANKWRIGHT_DAMAGED_FILES", "2000"))

Damage = Callable[[bytes, random.Random], bytes]


def cut(raw: bytes, chance: random.Random) -> bytes:
    return raw[: chance.randrange(len(raw))]


def flip_a_bit(raw: bytes, chance: random.Random) -> bytes:
    place = chance.randrange(len(raw))
    return raw[:place] + bytes([raw[place] ^ (1 << chance.randrange(8))]) + raw[place + 1 :]


def replace_a_number(raw: bytes, chance: random.Random) -> bytes:
    """A number of the header, or eight bytes of the data."""
    end = 8 + int.from_bytes(raw[:8], "little")
    if chance.random() < 0.5:
        place = chance.randrange(end, len(raw) - 8)
        return raw[:place] + np.float64(chance.uniform(-9, 9)).tobytes() + raw[place + 8 :]
    found = chance.choice(list(re.finditer(rb"\d+(\.\d+)?", raw[8:end])))
    other = str(chance.choice([0, 1, -1, 2**31, 1e308, chance.randrange(N_FILES // 20)])).encode()
    return raw[: 8 + found.start()] + other + raw[8 + found.end() :]


def delete_bytes(raw: bytes, chance: random.Random) -> bytes:
    place = chance.randrange(len(raw))
    return raw[:place] + raw[place + chance.randrange(1, 40) :]


def insert_garbage(raw: bytes, chance: random.Random) -> bytes:
    place = chance.randrange(len(raw) + 1)
    return raw[:place] + chance.randbytes(chance.randrange(1, 40)) + raw[place:]


DAMAGES: list[Damage] = [cut, flip_a_bit, replace_a_number, delete_bytes, insert_garbage]


def models(rows: np.ndarray, grades: np.ndarray, qid: np.ndarray) -> Iterator[Any]:
    yield rw.RidgeRanker(alpha=0.5).fit(rows, grades, qid=qid)
    yield make_pipeline(StandardScaler(), rw.RidgeRanker()).fit(rows, grades)
    scaled = make_pipeline(MinMaxScaler(clip=True), rw.QueryNormalizer(), rw.RidgeRanker())
    yield scaled.fit(rows, grades)
    yield rw.RidgeRanker().fit(np.tile(rows, 25), grades)


@pytest.mark.parametrize("damage", DAMAGES, ids=lambda each: each.__name__)
def test_no_damage_goes_unnoticed(
    damage: Damage,
    rows: np.ndarray,
    grades: np.ndarray,
    qid: np.ndarray,
    tmp_path: Path,
) -> None:
    wrong = []
    for number, model in enumerate(models(rows, grades, qid)):
        path, X = tmp_path / "model.rw", np.tile(rows, model_width(model) // 4)
        rw.save(model, path)
        raw, expected = path.read_bytes(), rw.load_scorer(path).decision_function(X)
        for seed in range(N_FILES // 20):
            broken = damage(raw, random.Random(f"{number} {seed}"))
            if broken == raw:
                continue
            path.write_bytes(broken)
            for reader in (rw.load, rw.load_scorer):
                try:
                    scores = reader(path).decision_function(X)
                except rw.exceptions.ModelFileError:
                    continue
                if not np.array_equal(scores, expected):
                    wrong.append((number, seed, "other scores"))
                wrong.append((number, seed, "not noticed"))
    assert wrong == []


def model_width(model: Any) -> int:
    return int(getattr(model, "n_features_in_", 4))


ODD_VALUES: list[Any] = [
    None, True, False, 0, 1, -1, 2**31, 2**63, -(2**70), 0.5, -1e308, 1e-320, "", "x", "../x",
    "\ud800", [], [[]], {}, {"array": "model.coef_"}, {"array": "no"}, {"float": "nan"},
    {"float": "inf"}, {"tuple": []}, {"tuple": [1, 2]}, {"dict": {}}, {"text": {}}, {"state": {}},
    {"state": {"kind": "linear", "values": {}}}, {"model": {}}, {"part": {"kind": "x"}},
    {"model": {"kind": "RidgeRanker", "params": {}, "learned": {}}}, {"__reduce__": "os.system"},
]  # fmt: skip


def every_place(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The paths of all values inside a JSON value."""
    items = value.items() if isinstance(value, dict) else enumerate(value)
    for key, item in items:
        yield (*path, key)
        if isinstance(item, dict | list):
            yield from every_place(item, (*path, key))


@pytest.mark.parametrize("seed", range(2))
def test_odd_values_with_right_checksums_are_refused_or_harmless(
    seed: int,
    rows: np.ndarray,
    grades: np.ndarray,
    qid: np.ndarray,
    tmp_path: Path,
    attempt: Callable[[Path], Any],
    forgery: Any,
) -> None:
    chance = random.Random(seed)
    model = list(models(rows, grades, qid))[1 + seed]
    path = tmp_path / "model.rw"
    rw.save(model, path)
    original = path.read_bytes()
    for _ in range(200):
        path.write_bytes(original)
        file = forgery(path)
        *outer, last = chance.choice(list(every_place(file.manifest)))
        target = file.manifest
        for key in outer:
            target = target[key]
        if chance.random() < 0.2 and isinstance(target, dict):
            del target[last]
        else:
            target[last] = chance.choice(ODD_VALUES)
        attempt(file.write(path, rehash=False))
