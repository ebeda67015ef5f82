"""RankBoost, Figure 4: training and test error of the four weak learners, round after round.

The paper's lists were never published. Two sets stand in: MQ2008's 25 engines (positions in their
lists, unlisted documents get the default 0; relevant documents above the others, four folds), and
MovieLens 100k (other users' ratings as features, a learned default; one user's films, half to train
and half to test). Error is the share of misordered pairs, ties counted 1/2 (eq. 21).

The paper's finding: WeakLearn.2 trains lowest; the .cum forms train higher, test lowest and do not
overfit. Needs RANKWRIGHT_DATA; draws a picture where matplotlib is installed.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

import rankwright as rw

RESULTS = Path(__file__).parents[1] / "_results"
LEARNERS: dict[str, dict[str, Any]] = {
    "WeakLearn.2": {"criterion": "z", "cumulative": False},
    "WeakLearn.3": {"criterion": "r", "cumulative": False},
    "WeakLearn.2.cum": {"criterion": "z", "cumulative": True},
    "WeakLearn.3.cum": {"criterion": "r", "cumulative": True},
    "signed": {"criterion": "r", "cumulative": "signed"},
}
ROUNDS = (1, 2, 3, 5, 10, 20, 30, 40, 50, 75, 100, 150, 200)
Part = tuple[Any, Any, Any]


def engines(folds: int) -> Iterator[tuple[Part, Part]]:
    """Four folds of the queries of MQ2008-agg that have a relevant document."""
    items = rw.load_dataset("letor4-mq2008-agg")
    y = (items.y > 0).astype(float)
    some = np.isin(items.qid, np.unique(items.qid[y > 0]))
    X, y, qid = -items.X[some], y[some], items.qid[some]
    fold = np.random.default_rng(0).permutation(len(np.unique(qid))) % 4
    part = fold[rw.Queries.from_ids(qid).codes]
    for number in range(folds):
        # A quarter to train, not three: the paper had 158 training queries.
        train, test = part == number, part != number
        yield (X[train], y[train], qid[train]), (X[test], y[test], qid[test])


def films(n_users: int) -> Iterator[tuple[Part, Part]]:
    """Users of MovieLens 100k with 100 to 200 ratings: half their films to train, half to test."""
    ratings = rw.load_dataset("movielens-100k")
    users, user = np.unique(ratings.user, return_inverse=True)
    movies, movie = np.unique(ratings.item, return_inverse=True)
    table = np.full((len(movies), len(users)), np.nan)
    table[movie, user] = ratings.value
    rng = np.random.default_rng(0)
    count = (~np.isnan(table)).sum(axis=0)
    for chosen in rng.permutation(np.flatnonzero((count >= 100) & (count <= 200)))[:n_users]:
        rated = rng.permutation(np.flatnonzero(~np.isnan(table[:, chosen])))
        X, y = np.delete(table, chosen, axis=1)[rated], table[rated, chosen]
        half = len(y) // 2
        yield (X[:half], y[:half], None), (X[half:], y[half:], None)


def loss(scores: Any, y: Any, qid: Any, weight: Any) -> float:
    """The share of all pairs that is misordered."""
    found = rw.evaluate(scores, y, qid, ["Disagreement"], query_weight=weight)
    return float(found["Disagreement"])


def pairs_by_query(y: Any, qid: Any) -> Any:
    """How many pairs each query has: what it counts."""
    queries = rw.Queries.from_ids(qid, len(y))
    return [float(rw.Grades(y[queries.codes == q]).n_pairs) for q in range(queries.n_queries)]


def errors(parts: Iterator[tuple[Part, Part]], rounds: tuple[int, ...], default: Any) -> Any:
    """Per learner: mean training and test error after each of some numbers of rounds."""
    found: dict[str, list[Any]] = {name: [] for name in LEARNERS}
    for train, test in parts:
        for name, options in LEARNERS.items():
            model = rw.RankBoost(
                n_rounds=rounds[-1], default=default, max_bins=None, smoothing=1e-12, **options
            )
            model.fit(train[0], train[1], qid=train[2])
            curves = []
            for X, y, qid in (train, test):
                weight = pairs_by_query(y, qid)
                staged = list(model.staged_decision_function(X))
                # Where no ranking was allowed any more the last scores stand.
                chosen = [staged[min(r, len(staged)) - 1] for r in rounds]
                curves.append([loss(scores, y, qid, weight) for scores in chosen])
            found[name].append(curves)
    return {name: np.mean(curves, axis=0).tolist() for name, curves in found.items()}


def _show(title: str, rounds: tuple[int, ...], table: dict[str, Any]) -> None:
    print(f"\n{title}: error in training / test after so many rounds")
    shown = [i for i, r in enumerate(rounds) if r in (5, 20, 50, 100, 200)]
    print(f"{'':18s}" + "".join(f"{rounds[i]:>16d}" for i in shown) + "   lowest test")
    for name, (train, test) in table.items():
        cells = "".join(f"   {train[i]:.4f}/{test[i]:.4f}" for i in shown)
        print(f"{name:18s}{cells}   {min(test):.4f}", flush=True)


def _draw(found: dict[str, Any]) -> None:
    try:
        import matplotlib
    except ImportError:
        print("matplotlib is not installed: no picture")
        return
    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(len(found), 2, figsize=(9, 3.5 * len(found)), squeeze=False)
    for row, (title, (rounds, table)) in enumerate(found.items()):
        for column, part in enumerate(("train", "test")):
            for name, curves in table.items():
                axes[row][column].plot(rounds, curves[column], label=name)
            axes[row][column].set(title=f"{title}: {part} error", xlabel="rounds", xscale="log")
    axes[0][0].legend()
    figure.tight_layout()
    figure.savefig(RESULTS / "rankboost_figure_4.png", dpi=120)
    pyplot.close(figure)
    print(f"picture: {RESULTS / 'rankboost_figure_4.png'}")


def run(quick: bool = False) -> dict[str, Any]:
    rounds = ROUNDS[:-2] if quick else ROUNDS
    found = {}
    for title, parts, default in (
        ("25 engines", engines(1 if quick else 4), 0),
        ("films", films(4 if quick else 20), "learned"),
    ):
        found[title] = (rounds, errors(parts, rounds, default))
        _show(title, *found[title])
    return found


def main(argv: list[str] | None = None) -> None:
    try:
        rw.load_dataset("letor4-mq2008-agg")
    except rw.RankwrightError as error:
        print(f"needs MQ2008-agg and MovieLens 100k: {error}")
        return
    found = run("--quick" in (argv or []))
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / "rankboost_figure_4.json").write_text(json.dumps(found))
    _draw(found)


if __name__ == "__main__":
    main(sys.argv[1:])
