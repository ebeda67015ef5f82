"""Boosting from VSIM's scores, and RankBoost with shrinkage: do they beat their parents?

MovieLens 1M, 1,000 features, users of a split that Figures 5 to 7 do not use. The hybrid starts
RankBoost from ``scale`` times the leave-one-out scores of VSIM (``init_score``) and adds what the
boosting learned to VSIM's score of a new film. Within each family, the setting and the number of
rounds are chosen by mean disagreement on 100 validation users; other users are tested. Printed are
the mean disagreement of the test users and the difference to both parents, paired user by user,
with its standard error. Options: ``--quick``, ``--targets=n``. Results are kept by 25 users and
method, so an interrupted run continues where it stopped.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator
from functools import cache, partial
from itertools import product
from typing import Any, NamedTuple

import numpy as np
from experiments.rankboost.movies import (
    RESULTS,
    SHARED,
    Job,
    Point,
    jobs_of,
    keep,
    kept,
    load,
    mean_and_error,
    run_jobs,
    size_of,
)

import rankwright as rw
from rankwright.data import split_within_users
from rankwright.recommend.ratings.per_user import ReferenceUsers, prepared

SEED, N_VALIDATION = 101, 100
ROUNDS, SCALES = (5, 10, 20, 40, 80, 140, 280), (0.5, 1.0, 2.0, 4.0)
SHRUNKEN = (  # learning_rate, colsample, default
    (1.0, 1.0, "learned"),
    (0.3, 1.0, "learned"),
    (0.1, 1.0, "learned"),
    (0.3, 0.3, "learned"),
    (0.1, 0.3, "learned"),
    (0.1, 0.3, 0),
)


class Method(NamedTuple):
    """RankBoost, started from ``scale`` times VSIM over ``over`` unless that is None."""

    over: str | None
    scale: float
    learning_rate: float
    colsample: float
    default: Any

    def __str__(self) -> str:
        start = f"VSIM over {self.over} x {self.scale:g}, " if self.over else ""
        return (
            f"{start}learning_rate {self.learning_rate:g}, colsample {self.colsample:g}, "
            f"q_def {self.default}"
        )

    def staged(self, table: Any, X: Any, y: Any, X_test: Any) -> Iterator[np.ndarray]:
        """The scores of the test rows after 5, 10, .. rounds."""
        boost = rw.RankBoost(
            n_estimators=140 if self.over else max(ROUNDS),
            cumulative=True,
            learning_rate=self.learning_rate,
            colsample_bytree=self.colsample,
            default=self.default,
            random_state=0,
        )
        if self.over is None:
            start: Any = np.zeros(len(X_test))
            boost.fit(X, y)
        else:
            vsim = prepared(rw.rankers.VSIMFeature(over=self.over), table)
            boost.fit(X, y, init_score=self.scale * vsim.fit_transform(X, y)[:, -1])
            start = self.scale * vsim.transform(X_test)[:, -1]
        scorers = (boost._ensemble.scorer(min(n, len(boost.alpha_))) for n in ROUNDS)
        return (start + scorer.decision_function(X_test) for scorer in scorers)


class Parent(NamedTuple):
    """VSIM by itself; the rounds make no difference."""

    over: str

    def staged(self, table: Any, X: Any, y: Any, X_test: Any) -> Iterator[np.ndarray]:
        scores = prepared(rw.VSIM(over=self.over), table).fit(X, y).decision_function(X_test)
        return (scores for _ in ROUNDS)


def families() -> dict[str, list[Method]]:
    """For each family the settings that the validation users choose from."""
    boosted = {f"RankBoost, {m}": [m] for m in (Method(None, 0.0, *row) for row in SHRUNKEN)}
    hybrids = {
        f"hybrid of VSIM over {over}, q_def {default}": [
            Method(over, scale, 0.3, 1.0, default) for scale in SCALES
        ]
        for over, default in product(("all", "rated"), ("learned", 0))
    }
    return boosted | hybrids


def main(argv: list[str] | None = None) -> None:
    size = size_of(sys.argv[1:] if argv is None else argv, splits=1, targets=500)
    ratings = load()
    n_features, n_held_out = (200, 25) if size.quick else (1000, N_VALIDATION)
    people = np.random.default_rng(SEED).permutation(ratings.n_users)
    reference, rest = people[:n_features], people[n_features:]
    held_out, targets = rest[:n_held_out], rest[n_held_out : n_held_out + size.targets]
    measure = partial(disagreement, ratings, reference)
    losses = measure("validation", held_out, [m for ms in families().values() for m in ms])
    chosen = {name: best(losses, methods) for name, methods in families().items()}
    parents = {f"VSIM over {over}": (Parent(over), 0) for over in ("all", "rated")}
    picked = parents | chosen
    tested = measure("test", targets, [method for method, _ in picked.values()])
    print(f"{len(targets)} test users, {len(held_out)} validation users, {n_features} features")
    show({name: tested[str(m)][:, stage] for name, (m, stage) in picked.items()}, chosen)


def best(losses: dict[str, np.ndarray], methods: list[Method]) -> tuple[Method, int]:
    """The setting with the smallest mean disagreement, and which of ROUNDS."""
    means = {m: np.nanmean(losses[str(m)], axis=0) for m in methods}
    method = min(means, key=lambda m: means[m].min())
    return method, int(means[method].argmin())


def disagreement(
    ratings: Any, reference: np.ndarray, part: str, users: np.ndarray, methods: list[Any]
) -> dict[str, np.ndarray]:
    """For each method a value for each user and each number of rounds."""
    folder = RESULTS / "rankboost_table_hybrid"
    folder.mkdir(parents=True, exist_ok=True)
    jobs = list(jobs_of(SEED, Point(part, reference, users), folder))
    names = {str(method) for method in methods}
    open_jobs = [job for job in jobs if names - set(kept(job.path))]
    run_jobs(ratings, partial(_work, methods), open_jobs, len(jobs))
    parts = [kept(job.path) for job in jobs]
    return {name: np.concatenate([part[name] for part in parts]) for name in names}


def _work(methods: list[Any], job: Job) -> float:
    """Keep one table (users x rounds) a method; the CPU seconds that it took."""
    start, tables = time.process_time(), kept(job.path)
    users, open_methods = job.point.targets, [m for m in methods if str(m) not in tables]
    table, rows = _shared(job.point.reference.tobytes())
    scores: dict[Any, list[Any]] = {method: [[] for _ in ROUNDS] for method in open_methods}
    grades: list[Any] = []
    for user in users.tolist():
        (train, y), (test, y_test) = rows(user)
        X, X_test = np.split(table.rows(np.concatenate([train, test]), "abstain", user), [len(y)])
        grades.append(y_test)
        for method in open_methods:
            stages = method.staged(table, X, y, X_test) if np.ptp(y) else [0 * y_test] * len(ROUNDS)
            for stage, found in enumerate(stages):
                scores[method][stage].append(found)
    qid, y_all = np.repeat(users, [len(y) for y in grades]), np.concatenate(grades)
    for method, stages in scores.items():
        measured = [
            rw.evaluate(np.concatenate(stage), y_all, qid, "Disagreement").per_query("Disagreement")
            for stage in stages
        ]
        tables[str(method)] = np.stack(measured, axis=1)
    keep(job.path, {"user": users, **tables})
    return time.process_time() - start


@cache
def _shared(reference: bytes) -> Any:
    """The reference users, and a user's training and test rows; once for each process."""
    ratings = SHARED[0]
    split = split_within_users(ratings.user, random_state=SEED)
    halves = [ratings.take(rows) for rows in (split.train, split.test)]

    def rows(user: int) -> Any:
        return [(half.item[half.user == user], half.value[half.user == user]) for half in halves]

    return ReferenceUsers(ratings, np.frombuffer(reference, np.int64)), rows


def show(tested: dict[str, np.ndarray], chosen: dict[str, tuple[Method, int]]) -> None:
    """Print the means, and what each is ahead of both parents; keep them as JSON."""
    print(f"  {'':<60}{'':>9}{'minus VSIM':>18}{'minus RankBoost':>18}  chosen")
    plain = next(iter(chosen))
    report = {}
    for name, value in tested.items():
        vsim = "VSIM over all" if name.startswith("hybrid of VSIM over all") else "VSIM over rated"
        gaps = [
            mean_and_error(np.arange(len(value)), value - tested[parent])
            for parent in (vsim, plain)
        ]
        cells = "".join(f"{mean:>+10.4f} ({error:.4f})" for mean, error in gaps)
        setting = ""
        if name in chosen:
            method, stage = chosen[name]
            setting = f"scale {method.scale:g}, " if method.over else ""
            setting += f"{ROUNDS[stage]} rounds"
        print(f"  {name:<60}{np.nanmean(value):>9.4f}{cells}  {setting}")
        report[name] = [float(np.nanmean(value)), gaps, setting]
    print("hybrids: learning_rate 0.3, up to 140 rounds, minus the VSIM that they start from;")
    print("others minus VSIM over rated. RankBoost is the first family.")
    (RESULTS / "rankboost_table_hybrid.json").write_text(json.dumps(report, indent=1))


if __name__ == "__main__":
    main()
