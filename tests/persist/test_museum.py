"""Files of every format and kind ever released still load, and give the scores they gave."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import rankwright as rw
from rankwright.persist.manifest import FORMAT
from rankwright.rankers.registry import RANKERS

MUSEUM = Path(__file__).with_name("museum")
PIECES = sorted(MUSEUM.glob("format-*/*.rw"))


@pytest.mark.parametrize("path", PIECES, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_an_old_file_gives_the_scores_it_gave_when_it_was_written(path: Path) -> None:
    expected = json.loads(path.with_suffix(".json").read_text())
    for model in (rw.load(path), rw.load_scorer(path)):
        for method in ("decision_function", "predict"):
            found = getattr(model, method)(np.array(expected["X"]))
            assert np.allclose(found, expected[method], rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("kind", RANKERS)
def test_every_kind_of_ranker_has_a_piece_of_this_format(kind: str) -> None:
    piece = MUSEUM / f"format-{FORMAT}" / f"{kind}.rw"
    assert piece.exists(), "run: python tests/persist/make_museum.py"
    assert piece.stat().st_size < 50_000
