"""What to judge next: an OAP-BPM ensemble as a committee against judging at random.

Half of the queries are the pool, half are held out. Forty items of the pool are judged at random,
then twenty a step: at random, or those on which the 50 members of an OAP-BPM differ most. The final
model is a BayesianPRank on what was judged. Features are standardized over the pool, as the judging
page does; ``--raw`` leaves them as they are. Judging is simulated with the known labels. All rules
of a trial share the split, the first forty items and the order of the random rule, so differences
are paired. Needs RANKWRIGHT_DATA; ``--trials=N`` sets the number of trials.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from experiments.parts import kept
from experiments.prank.trials import interval, load_or_leave, n_trials, save
from sklearn.preprocessing import StandardScaler

import rankwright as rw
from rankwright.data import make_queries
from rankwright.service.judging.active_learning import rank_variance

TRIALS, FIRST, STEP, MEMBERS = 20, 40, 20, 50
SIZES = (40, 80, 160, 320, 640)


def at_random(committee: Any, pool: rw.Items, rng: np.random.Generator) -> Any:
    return np.zeros(len(pool))  # ties keep the shuffled order


def relative_variance(committee: Any, pool: rw.Items, rng: np.random.Generator) -> Any:
    """The variance of the members' ranks as shares of the list: what the judging page uses."""
    return rank_variance(committee, pool.X, pool.queries)


def variance(committee: Any, pool: rw.Items, rng: np.random.Generator) -> Any:
    """The variance of the ranks themselves, which is larger in longer lists."""
    sizes = pool.queries.sizes[pool.queries.codes]
    return relative_variance(committee, pool, rng) * sizes**2


def vote_entropy(committee: Any, pool: rw.Items, rng: np.random.Generator) -> Any:
    """The entropy of the grades that the members predict."""
    scores = committee.member_scores(pool.X)
    grades = (scores[:, :, None] >= committee.members_thresholds_).sum(axis=2)
    shares = np.stack([(grades == g).mean(axis=1) for g in range(len(committee.classes_))])
    return -(shares * np.log(np.where(shares > 0, shares, 1.0))).sum(axis=0)


RULES: dict[str, Callable[[Any, rw.Items, np.random.Generator], Any]] = {
    "at random": at_random,
    "rank variance": variance,
    "relative rank variance": relative_variance,
    "vote entropy": vote_entropy,
}


def learning_curve(rule: str, pool: rw.Items, test: rw.Items, trial: int) -> list[float]:
    """NDCG@10 on the held-out queries after each of ``SIZES`` judgments."""
    rng = np.random.default_rng(trial)
    pool = pool.take(rng.permutation(len(pool)))
    classes = np.unique(np.concatenate([pool.y, test.y]))
    judged = np.arange(len(pool)) < FIRST
    order = [np.flatnonzero(judged)]
    committee = rw.OAPBPM(n_estimators=MEMBERS, random_state=trial)
    values = []
    while True:
        rows = order[-1]
        committee.partial_fit(pool.X[rows], pool.y[rows], classes)
        n_judged = int(judged.sum())
        if n_judged in SIZES:
            values.append(quality(pool.take(np.concatenate(order)), test, classes))
        if n_judged >= SIZES[-1]:
            return values
        priority = np.where(judged, -np.inf, RULES[rule](committee, pool, rng))
        order.append(np.argsort(-priority, kind="stable")[:STEP])
        judged[order[-1]] = True


def quality(judged: rw.Items, test: rw.Items, classes: Any) -> float:
    model = rw.BayesianPRank().partial_fit(judged.X, judged.y, classes)
    scores = model.decision_function(test.X)
    return float(rw.evaluate(scores, test.y, test.qid, ["NDCG@10"])["NDCG@10"])


def halves(items: rw.Items, trial: int) -> tuple[rw.Items, rw.Items]:
    """The pool and the held-out queries of a trial."""
    queries = items.queries
    chosen = np.random.default_rng([trial, 1]).permutation(queries.n_queries)
    in_pool = np.isin(queries.codes, chosen[: queries.n_queries // 2])
    return items.take(in_pool), items.take(~in_pool)


def synthetic(trial: int) -> tuple[rw.Items, rw.Items]:
    sample = make_queries(200, n_features=20, random_state=trial)
    return halves(sample.items, trial)


def real(name: str) -> Callable[[int], tuple[rw.Items, rw.Items]]:
    items = load_or_leave(lambda: rw.load_dataset(name))
    return lambda trial: halves(items, trial)


def prepared(parts: tuple[rw.Items, rw.Items], raw: bool) -> tuple[rw.Items, rw.Items]:
    """Pool and held-out items, standardized over the pool."""
    if raw:
        return parts
    scaler = StandardScaler().fit(parts[0].X)
    pool, test = (replace(items, X=scaler.transform(items.X)) for items in parts)
    return pool, test


def reached(curve: Any, goal: float) -> str:
    """Judgments after which a mean curve reaches a value, by linear interpolation."""
    above = np.flatnonzero(np.asarray(curve) >= goal)
    if not len(above):
        return f"more than {SIZES[-1]}"
    if above[0] == 0:
        return f"{SIZES[0]} or fewer"
    at = slice(above[0] - 1, above[0] + 1)
    return f"{np.interp(goal, curve[at], SIZES[at]):.0f}"


def main(argv: Sequence[str] | None = None) -> None:
    trials, raw = n_trials(argv, TRIALS, 2), "--raw" in (argv or ())
    found: dict[str, Any] = {"sizes": SIZES, "trials": trials, "raw": raw}
    sets = {
        "MQ2008": lambda: real("letor4-mq2008"),
        "OHSUMED": lambda: real("letor3-ohsumed"),
        "synthetic": lambda: synthetic,
    }
    print(f"NDCG@10 on held-out queries, {trials} trials, 95 % intervals; "
          "second line: difference from judging at random, paired")  # fmt: skip
    for name, load in sets.items():
        draw = load()
        curves = {
            rule: np.array(
                [
                    kept(
                        "oap_bpm_active_judging",
                        f"{name}, {rule}, {t}{', raw' * raw}",
                        lambda t=t, rule=rule, draw=draw: learning_curve(
                            rule, *prepared(draw(t), raw), t
                        ),
                    )
                    for t in range(trials)
                ]
            )
            for rule in RULES
        }
        print(f"\n{name:24}" + "".join(f"{size:>16}" for size in SIZES), flush=True)
        for rule, values in curves.items():
            print_row(rule, values)
            if rule != "at random":
                print_row("", values - curves["at random"], "+")
        goal = curves["at random"].mean(axis=0)[-1]
        for rule, values in curves.items():
            mean = values.mean(axis=0)
            print(f"{rule}: random's mean after {SIZES[-1]} is reached with {reached(mean, goal)}")
        found[name] = {rule: values.tolist() for rule, values in curves.items()}
    save("oap_bpm_table_active_judging", found)


def print_row(name: str, values: Any, sign: str = "") -> None:
    cells = [interval(column.tolist()) for column in values.T]
    print(f"{name:24}" + "".join(f"{mean:{sign}8.3f} ± {half:.3f}" for mean, half in cells))


if __name__ == "__main__":
    main()
