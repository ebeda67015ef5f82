"""RankBoost, Figure 4: training and test error of the four weak learners, round after round.

The paper's lists were never published. Three sets stand in: MQ2008's 25 engines (positions in their
lists, unlisted documents get the default 0; relevant documents above the others, four folds);
MovieLens 100k with its 25 busiest raters as features and other users as queries (20 to train, a
learned default); and MovieLens 100k user by user (all other users' ratings as features; half of a
user's films to train, half to test). Error is the share of misordered pairs, ties 1/2 (eq. 21).

The paper's finding: WeakLearn.2 trains lowest; the .cum forms train higher, test lowest and do not
overfit. Needs RANKWRIGHT_DATA; writes a picture.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from typing import Any

import numpy as np
from experiments.pictures import RESULTS, Panel, draw

import rankwright as rw

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
    part = fold[rw.data.Queries.from_ids(qid).codes]
    for number in range(folds):
        # A quarter to train, not three: the paper had 158 training queries.
        train, test = part == number, part != number
        yield (X[train], y[train], qid[train]), (X[test], y[test], qid[test])


def rating_table() -> Any:
    """Films x users of MovieLens 100k; NaN where a user has not rated a film."""
    ratings = rw.load_dataset("movielens-100k")
    users, user = np.unique(ratings.user, return_inverse=True)
    movies, movie = np.unique(ratings.item, return_inverse=True)
    table = np.full((len(movies), len(users)), np.nan)
    table[movie, user] = ratings.value
    return table


def raters(folds: int) -> Iterator[tuple[Part, Part]]:
    """Twenty users to train, 150 to test; the features are the ratings of the 25 busiest users."""
    table = rating_table()
    count = (~np.isnan(table)).sum(axis=0)
    busiest = np.argsort(-count, kind="stable")[:25]
    some = np.setdiff1d(np.flatnonzero((count >= 40) & (count <= 200)), busiest)
    some = np.random.default_rng(0).permutation(some)

    def part(users: Any) -> Part:
        user, film = np.nonzero(~np.isnan(table[:, users].T))
        return table[np.ix_(film, busiest)], table[film, users[user]], user

    for train in np.split(some[: 20 * folds], folds):
        yield part(train), part(some[-150:])


def films(n_users: int) -> Iterator[tuple[Part, Part]]:
    """Users with 100 to 200 ratings: half their films to train, half to test."""
    table = rating_table()
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
    queries = rw.data.Queries.from_ids(qid, len(y))
    return [float(rw.Grades(y[queries.codes == q]).n_pairs) for q in range(queries.n_queries)]


def errors(
    parts: Iterator[tuple[Part, Part]],
    rounds: tuple[int, ...],
    default: Any,
    smoothing: float | None,
) -> Any:
    """Per learner: mean training and test error after each of some numbers of rounds."""
    found: dict[str, list[Any]] = {name: [] for name in LEARNERS}
    for train, test in parts:
        for name, options in LEARNERS.items():
            model = rw.RankBoost(
                n_estimators=rounds[-1],
                default=default,
                max_bins=None,
                smoothing=smoothing,
                **options,
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
    _show_gaps(found)
    return {name: np.mean(curves, axis=0).tolist() for name, curves in found.items()}


def _show_gaps(found: dict[str, list[Any]]) -> None:
    """What .cum adds to the test error after the last round, with its standard error."""
    last = {name: np.array(curves)[:, 1, -1] for name, curves in found.items()}
    for name in ("WeakLearn.2", "WeakLearn.3"):
        gap = last[f"{name}.cum"] - last[name]
        error = gap.std(ddof=1) / len(gap) ** 0.5 if len(gap) > 1 else np.nan
        print(f"\n{name}.cum minus {name}: {gap.mean():+.4f} ({error:.4f}) in test", end="")
    print()


def _show(title: str, rounds: tuple[int, ...], table: dict[str, Any]) -> None:
    print(f"\n{title}: error in training / test after so many rounds")
    shown = [i for i, r in enumerate(rounds) if r in (5, 20, 50, 100, 200)]
    print(f"{'':18s}" + "".join(f"{rounds[i]:>16d}" for i in shown) + "   lowest test")
    for name, (train, test) in table.items():
        cells = "".join(f"   {train[i]:.4f}/{test[i]:.4f}" for i in shown)
        print(f"{name:18s}{cells}   {min(test):.4f}", flush=True)


def _draw(found: dict[str, Any]) -> None:
    """Training error left, test error right, one row for each set."""
    rows = [
        [
            Panel(
                f"{title}: error in {part}",
                "rounds",
                rounds,
                {name: curves[column] for name, curves in table.items()},
                log=True,
            )
            for column, part in enumerate(("training", "test"))
        ]
        for title, (rounds, table) in found.items()
    ]
    draw("rankboost_figure_4", rows)


def run(quick: bool = False) -> dict[str, Any]:
    rounds = ROUNDS[:-2] if quick else ROUNDS
    found = {}
    for title, parts, default, smoothing in (
        ("25 engines", engines(1 if quick else 4), 0, 1e-12),
        ("25 raters", raters(1 if quick else 8), "learned", 1e-12),
        ("films", films(4 if quick else 20), "learned", 1e-12),
        ("films, smoothed", films(4 if quick else 20), "learned", None),
    ):
        found[title] = (rounds, errors(parts, rounds, default, smoothing))
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
