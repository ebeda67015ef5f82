"""Categorical columns: LambdaMART beside LightGBM and CatBoost, one-hot columns and plain codes.

The decision rule, written down before the first run: ``LambdaMART(categorical_features=...)`` is
compared on each of four sets with the best of five others, the one with the highest mean on the
*test* queries, which helps the others.

1. The mean lead in NDCG@10 over the best of them, pooled over the four sets, has a 95 % interval
   above 0, or one within .002 of 0.
2. On no set is it significantly below any of the five: a negative mean and p <= .05 in a two-sided
   randomization test, after Holm's correction over the twenty comparisons.

Everything is paired by query. The sets weigh the same; the interval draws the queries again within
each set. Sets: ``shop``, ten tables of ``make_shop(500)`` (seeds 0 to 9), trained on the first four
fifths of the searches, which do not have all brands of the rest; ``generated``, the set of
``benchmarks.categorical`` with seeds 0 to 9 (a category of 273 levels with normal effects and
one of 30 without any, 30,000 training rows); ``movielens``, MovieLens 100k, a user a query, in two
halves of the users (movie, genres, year; gender, occupation, age and region of the user);
``abalone``, the one set of ``ordinal`` with text (sex), in random queries of 20 rows, two halves.

All systems make 200 trees and have defaults otherwise. One-hot columns are for the 300 most
frequent levels of each column, as ``TableEncoder`` makes them. Levels that training did not have
are left to each library.

Settings (five folds drawn anew for each tree, ``cat_smooth``, ``cat_l2``, up to four levels split
one by one) were chosen on shops with the seeds 100 to 107, the generated set with the seeds 100 to
102, and sets like it with 1,000 and 5,000 levels; none was changed after a run of this script.

Every fit is kept in ``_results``. Needs RANKWRIGHT_DATA and the extra ``bench``. ``--sets=shop``
runs some of the sets.
"""

from __future__ import annotations

import argparse
import gzip
import os
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from benchmarks.categorical import generated
from experiments.letor.table_default import Estimate, pooled, print_table
from experiments.parts import kept
from numpy.typing import NDArray

import rankwright as rw
from rankwright.data import make_shop
from rankwright.metrics.significance import holm, randomization

N_TREES, MOST_LEVELS, MEASURE, LEVEL = 200, 300, "NDCG@10", 0.002
SYMMETRIC, LEAFWISE = "LambdaMART", "LambdaMART, leafwise"
ONE_HOT, CODES = "LambdaMART, one-hot", "LambdaMART, codes"
PEERS = ("LightGBM", "CatBoost QueryRMSE", "CatBoost YetiRank")
OTHERS = (ONE_HOT, CODES, *PEERS)


class Part(NamedTuple):
    """Training and test rows; categories are whole numbers, NaN if missing."""

    X: Any
    y: Any
    qid: Any
    test_X: Any
    test_y: Any
    test_qid: Any
    categorical: list[int]


# --- Sets ---------------------------------------------------------------------------------------


def divided(X: Any, y: Any, qid: Any, train: Any, categorical: list[int]) -> Part:
    return Part(X[train], y[train], qid[train], X[~train], y[~train], qid[~train], categorical)


def numbered(cells: Any) -> NDArray[np.float64]:
    """The numbers of texts in alphabetical order; NaN for None."""
    levels = sorted({cell for cell in cells if cell is not None})
    number = {level: float(k) for k, level in enumerate(levels)}
    return np.array([np.nan if cell is None else number[cell] for cell in cells])


def shop(seed: int) -> Part:
    table = make_shop(500, random_state=seed)
    numbers = [table[name].astype(float) for name in ("price", "stars", "stock", "cat_match")]
    launched = np.array(table["launch_date"].tolist(), "datetime64[D]").astype(float)
    texts = [numbered(table[name].tolist()) for name in ("category", "brand", "color", "device")]
    X, y = np.column_stack([*numbers, launched, *texts]), table["grade"]
    _, qid = np.unique(table["query"], return_inverse=True)
    return divided(X, y, qid, np.arange(len(y)) < 4 * len(y) // 5, [5, 6, 7, 8])


def drawn(seed: int) -> Part:
    X, y, qid = generated(seed)
    return divided(X, y, qid, qid < 0.75 * (qid.max() + 1), [14, 15])


def _lines(name: str, separator: str) -> list[list[str]]:
    with gzip.open(Path(os.environ["RANKWRIGHT_DATA"]) / name, "rt", encoding="latin-1") as file:
        return [line.rstrip("\n").split(separator) for line in file]


def movielens(seed: int) -> Part:
    ratings = np.array([row[:3] for row in _lines("movielens-100k/u.data.gz", "\t")], np.int64)
    ratings = ratings[np.lexsort((ratings[:, 1], ratings[:, 0]))]
    films = _lines("movielens-100k/u.item.gz", "|")
    genres = np.array([row[5:24] for row in films], float)
    year = np.array([float(row[2][-4:] or "nan") for row in films])
    users = _lines("movielens-100k/u.user.gz", "|")
    age = np.array([float(row[1]) for row in users])
    gender, work, region = (
        numbered([row[2] for row in users]),
        numbered([row[3] for row in users]),
        numbered([row[4][:2] for row in users]),
    )
    user, film = ratings[:, 0] - 1, ratings[:, 1] - 1
    all_genres = numbered(["".join(str(int(one)) for one in row) for row in genres])
    about_user = [age[user], gender[user], work[user], region[user]]
    columns = [film.astype(float), all_genres[film], year[film], *about_user, genres[film]]
    half = np.random.default_rng(0).permutation(len(users)) % 2
    categorical = [0, 1, 4, 5, 6]
    return divided(np.column_stack(columns), ratings[:, 2], user, half[user] == seed, categorical)


def abalone(seed: int) -> Part:
    rows = _lines("ordinal/uci/abalone.csv.gz", ",")
    rows = [row for row in rows if row[0] in "MFI"]
    sex = numbered([row[0] for row in rows])
    X = np.column_stack([sex, np.array([row[1:8] for row in rows], float)])
    rings = np.array([float(row[8]) for row in rows])
    y = np.searchsorted(np.quantile(rings, [0.2, 0.4, 0.6, 0.8]), rings)
    order = np.random.default_rng(0).permutation(len(y))[: len(y) // 20 * 20]
    qid = np.repeat(np.arange(len(order) // 20), 20)
    return divided(X[order], y[order], qid, qid % 2 == seed, [0])


SETS: dict[str, tuple[Callable[[int], Part], int]] = {
    "shop": (shop, 10),
    "generated": (drawn, 10),
    "movielens": (movielens, 2),
    "abalone": (abalone, 2),
}


# --- Systems ------------------------------------------------------------------------------------


def lambdamart(part: Part, **options: Any) -> Any:
    model = rw.LambdaMART(n_estimators=N_TREES, n_jobs=1, **options)
    return model.fit(part.X, part.y, qid=part.qid).decision_function(part.test_X)


def one_hot(part: Part) -> Any:
    X, test = (np.delete(X, part.categorical, axis=1) for X in (part.X, part.test_X))
    for column in part.categorical:
        levels, n = np.unique(part.X[:, column], return_counts=True)
        levels = levels[np.argsort(-n, kind="stable")][:MOST_LEVELS]
        levels = levels[~np.isnan(levels)]
        X = np.hstack([X, part.X[:, [column]] == levels])
        test = np.hstack([test, part.test_X[:, [column]] == levels])
    return lambdamart(part._replace(X=X, test_X=test))


def lightgbm(part: Part) -> Any:
    from lightgbm import LGBMRanker

    model = LGBMRanker(n_estimators=N_TREES, n_jobs=1, verbose=-1)
    group = np.unique(part.qid, return_counts=True)[1]  # rows are in the order of queries
    model.fit(part.X, part.y, group=group, categorical_feature=part.categorical)
    return model.predict(part.test_X)


def catboost(part: Part, loss: str) -> Any:
    from catboost import CatBoost, Pool

    def rows(X: Any) -> list[list[Any]]:
        table: list[list[Any]] = X.tolist()
        for row in table:
            for column in part.categorical:
                row[column] = "missing" if np.isnan(row[column]) else int(row[column])
        return table

    options = {"loss_function": loss, "iterations": N_TREES, "thread_count": 1, "verbose": 0}
    model = CatBoost({**options, "allow_writing_files": False})
    model.fit(Pool(rows(part.X), part.y, cat_features=part.categorical, group_id=part.qid))
    return model.predict(rows(part.test_X))


def scores_of(system: str, part: Part) -> Any:
    categories = {"categorical_features": part.categorical}
    systems: dict[str, Callable[[Part], Any]] = {
        SYMMETRIC: lambda part: lambdamart(part, **categories),
        LEAFWISE: lambda part: lambdamart(part, tree="leafwise", **categories),
        ONE_HOT: one_hot,
        CODES: lambdamart,
        "LightGBM": lightgbm,
        "CatBoost QueryRMSE": lambda part: catboost(part, "QueryRMSE"),
        "CatBoost YetiRank": lambda part: catboost(part, "YetiRank"),
    }
    return systems[system](part)


def fitted(system: str, name: str, seed: int) -> dict[str, Any]:
    """The measure of each test query, and the CPU seconds of training and scoring."""
    part = SETS[name][0](seed)
    start = time.process_time()
    scores = scores_of(system, part)
    cpu = time.process_time() - start
    values = rw.evaluate(scores, part.test_y, part.test_qid, MEASURE).per_query(MEASURE)
    print(f"{name} {seed}, {system}: {np.nanmean(values):.4f}", file=sys.stderr, flush=True)
    return {"values": [None if np.isnan(v) else float(v) for v in values], "cpu": cpu}


# --- Tables -------------------------------------------------------------------------------------


def results(name: str) -> tuple[dict[str, NDArray[np.float64]], dict[str, float]]:
    """By system: the values of all test queries of a set, and the mean CPU seconds."""
    values, cpu = {}, {}
    for system in (SYMMETRIC, LEAFWISE, *OTHERS):
        words = "".join(c if c.isalnum() else "-" for c in system)
        runs = [
            kept("letor_categories", f"{name}-{seed}-{words}", partial(fitted, system, name, seed))
            for seed in range(SETS[name][1])
        ]
        values[system] = np.array([v for run in runs for v in run["values"]], float)
        cpu[system] = float(np.mean([run["cpu"] for run in runs]))
    return values, cpu


def comparisons(found: Any) -> Iterator[tuple[str, str, NDArray[np.float64]]]:
    for name, (values, _) in found.items():
        for other in OTHERS:
            lead = values[SYMMETRIC] - values[other]
            yield name, other, lead[~np.isnan(lead)]


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="letor/table_categories", allow_abbrev=False)
    parser.add_argument("--sets", default=",".join(SETS))
    os.environ["RANKWRIGHT_THREADS"] = "1"
    found = {name: results(name) for name in parser.parse_args(argv or []).sets.split(",")}
    systems = (SYMMETRIC, LEAFWISE, *OTHERS)
    print(f"{MEASURE} on test queries; CPU seconds of training and scoring in parentheses.")
    rows = [
        [system, *(f"{np.nanmean(v[system]):.4f} ({cpu[system]:.1f})" for v, cpu in found.values())]
        for system in systems
    ]
    print_table(["system", *found], rows)
    leads = list(comparisons(found))
    p = holm([randomization(lead, np.zeros(len(lead))) for *_, lead in leads])
    estimates = [pooled([lead]) for *_, lead in leads]
    print(f"{SYMMETRIC} minus another, by query, 95 % interval; p after Holm's correction.")
    print_table(
        ["set", "other", "queries", "difference", "p"],
        [
            [name, other, str(len(lead)), str(estimate), f"{one:.3f}"]
            for (name, other, lead), estimate, one in zip(leads, estimates, p, strict=True)
        ],
    )
    best = {
        name: max(OTHERS, key=lambda other, v=v: float(np.nanmean(v[other])))
        for name, (v, _) in found.items()
    }
    lead: Estimate = pooled([values for name, other, values in leads if best[name] == other])
    print(f"Best of the others: {', '.join(f'{k}: {v}' for k, v in best.items())}.")
    print(f"Pooled lead over the best of them: {lead}")
    level = lead.low > 0 or max(-lead.low, lead.high) <= LEVEL
    below = [
        f"{name}, {other}"
        for (name, other, _), one, estimate in zip(leads, p, estimates, strict=True)
        if estimate.mean < 0 and one <= 0.05
    ]
    print(f"1. The pooled lead is above 0, or within {LEVEL} of it: {'yes' if level else '**NO**'}")
    print(f"2. Significantly below on no set: {'**NO**: ' + '; '.join(below) if below else 'yes'}")


if __name__ == "__main__":
    main(sys.argv[1:])
