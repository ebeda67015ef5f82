"""Make the museum: one small model file of each kind, with the scores it must always give.

``python tests/persist/make_museum.py`` adds missing files and never rewrites an existing one: each
file was written by a released version.

Only files of an unreleased format may be deleted by hand and written again.
"""

from __future__ import annotations

import json
import re
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MaxAbsScaler, MinMaxScaler, StandardScaler

import rankwright as rw
from rankwright.persist.format import FORMAT

MUSEUM = Path(__file__).with_name("museum")

# Rows that every machine computes alike, without a random generator.
ROWS = np.array([[((7919 * i + 104729 * j) % 1009) / 500 - 1 for j in range(3)] for i in range(24)])
QID = np.repeat(np.arange(4), 6)
GRADES = np.clip(np.round(ROWS @ [1.0, -0.5, 0.25] + 1), 0, 3)
NEW_ROWS = ROWS[::-2] * 0.75 + 0.01

MORE = [
    rw.RankSVM(normalize="query"),
    make_pipeline(StandardScaler(), rw.RidgeRanker()),
    make_pipeline(MinMaxScaler(clip=True), rw.RidgeRanker(alpha=0.1)),
    make_pipeline(MaxAbsScaler(), "passthrough", rw.RidgeRanker()),
    make_pipeline(rw.QueryNormalizer(), rw.RidgeRanker()),
    make_pipeline(rw.rankers.PolynomialMap(), rw.RidgeRanker(alpha=0.1)),
    make_pipeline(rw.rankers.VSIMFeature(), rw.RankBoost(n_estimators=5)),
    make_pipeline(
        rw.rankers.OneHotDecoder(categories=[(1, 6)]),
        rw.LambdaMART(n_estimators=10, min_samples_leaf=1, categorical_features=[1]),
    ),
]


def models() -> Iterator[tuple[str, Any]]:
    """A name and an unfitted model for each piece: the contract's rankers, and pipelines."""
    from contract.instances import INSTANCES

    for model in [*INSTANCES, *MORE]:
        named = repr([step for _, step in model.steps]) if hasattr(model, "steps") else repr(model)
        plain = re.sub(r"[^\w.=]+", "-", re.sub(r"['\"]|random_state=0", "", named))
        yield plain.strip("-"), clone(model)


def rows_of(name: str) -> tuple[Any, Any]:
    """The rows that a piece is fitted to, and those that it scores."""
    if not name.startswith("OneHotDecoder"):
        return ROWS, NEW_ROWS
    # The first column, and five columns of which one is 1: a level for a range of the second.
    parts = []
    for rows in (ROWS, NEW_ROWS):
        level = np.digitize(rows[:, 1], [-0.6, -0.2, 0.2, 0.6])
        parts.append(np.column_stack([rows[:, 0], level[:, None] == np.arange(5)]))
    return parts[0].astype(float), parts[1].astype(float)


def add(name: str, model: Any, folder: Path) -> None:
    queries = {} if hasattr(model, "steps") else {"qid": QID}
    rows, new_rows = rows_of(name)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # so few rows: some solvers have reason to complain
        model.fit(rows, GRADES, **queries)
        expected = {
            "X": new_rows.tolist(),
            "decision_function": model.decision_function(new_rows).tolist(),
            "predict": model.predict(new_rows).tolist(),
        }
    rw.save(model, folder / f"{name}.rw")
    (folder / f"{name}.json").write_text(json.dumps(expected) + "\n")


def recommenders() -> dict[str, Any]:
    """A name and an unfitted recommender for each piece."""
    return {
        "default": rw.Recommender(random_state=0),
        "per-user": rw.Recommender(ranker=rw.VSIM(), n_reference=5, random_state=0),
        "similar": rw.Recommender(ranker=rw.KNN(n_neighbors=2), n_reference=3, reference="similar"),
        "events": rw.Recommender(experts=_experts(), holdout="next", random_state=0),
    }


def _experts() -> list[Any]:
    from rankwright.recommend import events

    kinds = (events.Popularity, events.ItemCosine, events.NextItems, events.EASE)
    return [*(kind() for kind in kinds), events.ImplicitALS(n_factors=3, max_iter=2)]


def add_recommender(name: str, model: Any, folder: Path) -> None:
    users = [f"user {i % 9}" for i in range(54)]
    items = [f"item {(i // 9 + i % 9) % 8}" for i in range(54)]
    values = [float((7919 * i) % 1009 % 5 + 1) for i in range(54)]
    data: Any = rw.Ratings.from_arrays(users, items, values)
    if name == "events":
        data = rw.Interactions(users, items, weight=values)
    model.fit(data)
    rw.save(model, folder / f"{name}.rw")
    expected = {user: model.scores(user).tolist() for user in ("user 0", "user 8")}
    (folder / f"{name}.json").write_text(json.dumps(expected) + "\n")


def main() -> None:
    folder = MUSEUM / f"format-{FORMAT}"
    folder.mkdir(parents=True, exist_ok=True)
    for name, model in models():
        if not (folder / f"{name}.rw").exists():
            add(name, model, folder)
            print(f"added {name}.rw, {(folder / f'{name}.rw').stat().st_size:,} bytes")
    shelf = folder / "recommenders"
    shelf.mkdir(exist_ok=True)
    for name, model in recommenders().items():
        if not (shelf / f"{name}.rw").exists():
            add_recommender(name, model, shelf)
            print(f"added recommenders/{name}.rw")


if __name__ == "__main__":
    sys.path.insert(0, str(MUSEUM.parent.parent))  # as pytest does, for contract.instances
    main()
