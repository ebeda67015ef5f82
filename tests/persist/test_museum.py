"""Files of every format and kind ever released still load, and give the scores they gave."""

from __future__ import annotations

import json
import re
from pathlib import Path

import msgspec
import numpy as np
import pytest

import rankwright as rw
from persist.make_museum import MUSEUM, models
from rankwright.persist.codec import KINDS
from rankwright.persist.format import FORMAT, read_file

NEWEST = MUSEUM / f"format-{FORMAT}"
PIECES = sorted(MUSEUM.glob("format-*/*.rw"))


@pytest.mark.filterwarnings("ignore::rankwright.exceptions.MissingQueryWarning")
@pytest.mark.parametrize("path", PIECES, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_an_old_file_gives_the_scores_it_gave_when_it_was_written(path: Path) -> None:
    expected = json.loads(path.with_suffix(".json").read_text())
    for model in (rw.load(path), rw.load_scorer(path)):
        for method in ("decision_function", "predict"):
            found = getattr(model, method)(np.array(expected["X"]))
            assert np.allclose(found, expected[method], rtol=1e-12, atol=1e-12)


def test_every_ranker_of_the_contract_has_a_piece_of_this_format() -> None:
    missing = [name for name, _ in models() if not (NEWEST / f"{name}.rw").exists()]
    assert not missing, "run: python tests/persist/make_museum.py"


def test_every_kind_of_scorer_has_a_piece_of_this_format() -> None:
    shown = set()
    for path in NEWEST.glob("*.rw"):
        served = msgspec.json.encode(read_file(path)[0].served).decode()
        shown |= set(re.findall(r'"kind":"(\w+)"', served))
    assert shown == set(KINDS)


def test_the_pieces_are_small() -> None:
    assert all(path.stat().st_size < 50_000 for path in PIECES)


@pytest.mark.parametrize("path", PIECES, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_no_array_is_in_a_file_twice(path: Path) -> None:
    arrays = read_file(path)[0].arrays.values()
    assert len({msgspec.json.encode(entry) for entry in arrays}) == len(arrays)
