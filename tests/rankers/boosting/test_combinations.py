"""The table of the guide: which combinations of LambdaMART work, and which are refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import rankwright as rw
from rankwright.exceptions import ParameterError

GUIDE = Path(__file__).parents[3] / "docs" / "guide" / "rankers.md"
OPTIONS: dict[str, dict[str, Any]] = {
    "numbers only": {},
    "`categorical_features`": {"categorical_features": [3]},
    "`monotonic_cst`": {"monotonic_cst": [1, 0, -1, 0]},
    "`interaction_cst`": {"interaction_cst": [{0, 1}, {2, 3}]},
    "categories with `monotonic_cst` and `interaction_cst` of other features": {
        "categorical_features": [3],
        "monotonic_cst": [1, 0, 0, 0],
        "interaction_cst": [{0, 1}, {2}],
    },
    "`monotonic_cst` of a category": {
        "categorical_features": [3],
        "monotonic_cst": [0, 0, 0, 1],
    },
    '`loss="xendcg"`': {"loss": "xendcg"},
    '`loss="xendcg"` with a `weighting`': {"loss": "xendcg", "weighting": "AP"},
    '`loss="exponential", weighting=None`': {"loss": "exponential", "weighting": None},
    "`subsample`, `colsample_bytree`, `colsample_bynode`": {
        "subsample": 0.6,
        "colsample_bytree": 0.8,
        "colsample_bynode": 0.7,
    },
}


def cells() -> list[tuple[str, str, bool]]:
    """The cells of the table: options, what they are combined with, and whether that works."""
    lines = GUIDE.read_text("utf-8").splitlines()
    start = next(i for i, line in enumerate(lines) if line.startswith("| `LambdaMART` with |"))
    table = [
        [cell.strip() for cell in line.strip("|").split("|")]
        for line in lines[start : start + 2 + len(OPTIONS)]
    ]
    return [
        (row[0], column, {"yes": True, "no": False}[cell])
        for row in table[2:]
        for column, cell in zip(table[0][1:], row[1:], strict=True)
    ]


def combine(options: dict[str, Any], column: str, folder: Path) -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 4))
    X[:, 3] = rng.integers(0, 5, 200)
    y, qid = np.digitize(X[:, 0] + (X[:, 3] == 2), [0.0, 1.0]), np.repeat(np.arange(10), 20)
    tree = {"tree": column} if column in ("leafwise", "symmetric") else {}
    model = rw.LambdaMART(n_estimators=3, min_samples_leaf=5, **options, **tree)
    if column == "cluster":
        with rw.engine("local:2"):
            model.fit(X, y, qid=qid)
        return
    model.fit(X, y, qid=qid)
    if column not in ("leafwise", "symmetric"):
        target = column.split()[0].lower()
        rw.export(model, folder / f"model.{target}", to=target)


@pytest.mark.filterwarnings("ignore::rankwright.exceptions.ClusterWarning")
@pytest.mark.parametrize(("options", "column", "works"), cells())
def test_a_cell_of_the_table_is_true(
    options: str, column: str, works: bool, tmp_path: Path
) -> None:
    if works:
        combine(OPTIONS[options], column, tmp_path)
    else:
        with pytest.raises(ParameterError):
            combine(OPTIONS[options], column, tmp_path)
