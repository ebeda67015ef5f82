"""AutoRanker with defaults beside LightGBM, XGBoost and CatBoost, and beside our own rankers.

The decision rule, written down before the first run:

1. The mean lead in NDCG@10 of ``AutoRanker()`` over the best single peer is above 0: so is the
   lower end of its 95 % interval, pooled over the seven sets.
2. On no set is it significantly below the best single peer.
3. On no set is it significantly below ``LambdaMART()``, ``RankBoost()``, ``RankSVM()`` or
   ``KeepRank()`` with defaults.

*Differences* are paired by query. A query's difference is the mean over the seeds that test it, so
an interval is about queries; a query without a relevant document is left out. *Pooled* is the mean
of the seven means, with queries drawn again within each set (10,000 bootstrap samples). Sets weigh
the same, because the number of test queries says how large a file was, and that of generated
sets was our choice; the mean over all queries is printed too, and decides nothing.
*Significantly below* is a negative mean and p <= .05 in a two-sided randomization test, after
Holm's correction over all comparisons of rules 2 and 3 (seven sets, five opponents each). Holm's
correction makes these two rules easier to meet, so the plain intervals are printed beside it.

*The best single peer* is one of eight: LightGBM lambdarank, XGBoost rank:ndcg, CatBoost YetiRank
and CatBoost QueryRMSE, each with defaults and as the best of eight random trials. It is the one
with the highest NDCG@10 on the validation queries, chosen in two ways: for each set and seed, as
a user with this data would, and for each set by the mean over the seeds, which helps the peers
where a fold has few validation queries. The rules must hold for both.

Settings of AutoRanker were chosen on OHSUMED, MQ2008 and the two generated sets only. MQ2007
(partial), the MSLR sample and lightgbm-rank confirm: no setting was changed after a look at them.

CPU seconds are those of the fit, children counted, one thread, after a first fit to a few generated
queries that loads the libraries and their compiled code; a search costs the sum of its trials. The
table has medians over the seeds.

Every fit is kept in ``_results/letor_default`` under a hash of what it depends on, and is not
repeated. Needs RANKWRIGHT_DATA and, for the peers, the extra ``bench``. ``--sets=ohsumed,mslr``,
``--systems=AutoRanker,CatBoost``, ``--seeds=1,2``: what to run; all results that are kept are
printed. ``--defaults``: no trials. ``--kept``: run nothing. ``--quick``: seed 1, without trials.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import multiprocessing
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import suppress
from functools import cache
from itertools import groupby, product
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from experiments.letor.sets import SEEDS, SETS, identity, load, query_names
from experiments.letor.systems import AUTO, DEFAULTS, SPACES, TRIALS, System, cpu_seconds, systems

import rankwright as rw
from rankwright.data import make_queries
from rankwright.data.datasets.loading import Partition
from rankwright.data.io.files import atomic_write
from rankwright.metrics.significance import holm, randomization

RESULTS = Path(__file__).parents[1] / "_results"
KEPT = RESULTS / "letor_default"
MEASURE = "NDCG@10"
THREADS = dict.fromkeys(
    ("RANKWRIGHT_THREADS", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1"
)
PEERS = [name for family in SPACES for name in (family, f"{family}, search")]
CHOICES = ("set and seed", "set")  # what the best peer is chosen for
N_RESAMPLES = 10_000

Values = Mapping[int, Mapping[str, float]]  # by seed and query


class Result(NamedTuple):
    """What a system reached on one set: by seed, the value of each test query, and so on."""

    test: dict[int, dict[str, float]]
    vali: dict[int, float]
    cpu: dict[int, float]


# --- Runs ---------------------------------------------------------------------------------------


def kept_path(name: str, seed: int, system: System) -> Path:
    parts = [_set_identity(name, seed), seed, system.identity()]
    key = hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:12]
    words = "".join(c if c.isalnum() else "-" for c in system.name)
    return KEPT / name / f"{seed}-{words}-{key}.json"


_set_identity = cache(identity)


def fit_all(name: str, seed: int, todo: list[System]) -> None:
    """Fit some systems on one set, in a process of their own."""
    paths = [kept_path(name, seed, system) for system in todo]
    fold = load(name, seed)
    few = make_queries(20, docs_per_query=10, random_state=0).items
    with suppress(rw.RankwrightError):
        todo[0].fit(Partition(few, few, few), seed)
    for system, path in zip(todo, paths, strict=True):
        content: dict[str, Any] = {"set": name, "seed": seed, "system": system.name}
        content["parameters"] = system.parameters
        start = cpu_seconds()
        try:
            predict = system.fit(fold, seed)
        except (rw.RankwrightError, MemoryError) as error:
            content["refused"] = f"{type(error).__name__}: {error}"
        else:
            content["cpu"] = round(cpu_seconds() - start, 3)
            if system.family in SPACES:
                content["vali"] = rw.evaluate(
                    predict(fold.vali.X), fold.vali.y, fold.vali.qid, MEASURE
                )[MEASURE]
            test = rw.evaluate(predict(fold.test.X), fold.test.y, fold.test.qid, MEASURE)
            names = query_names(name, seed, test.query_ids)
            values = test.per_query(MEASURE)
            content["test"] = {
                query: float(value)
                for query, value in zip(names, values, strict=True)
                if not np.isnan(value)
            }
        path.parent.mkdir(parents=True, exist_ok=True)
        with atomic_write(path, mode=0o666) as file:
            file.write(json.dumps(content).encode())
        reached = content.get("refused") or f"{np.mean(list(content['test'].values())):.4f}"
        print(f"{name}, seed {seed}, {system.name}: {reached}", file=sys.stderr, flush=True)


def run(sets: list[str], seeds: list[int], wanted: Callable[[System], bool]) -> None:
    """Fit what is not kept yet: ours, then the peers with defaults, then their trials."""
    os.environ.update(THREADS)
    context = multiprocessing.get_context("spawn")
    stages: list[Callable[[System], bool]] = [
        lambda system: system.library == "rankwright",
        lambda system: system.family in SPACES and not system.trial,
        lambda system: bool(system.trial),
    ]
    for belongs, name, seed in product(stages, sets, seeds):
        here = [system for system in systems(seed) if belongs(system) and wanted(system)]
        for _, group in groupby(here, lambda system: system.family):
            todo = [system for system in group if system.installed]
            todo = [system for system in todo if not kept_path(name, seed, system).exists()]
            if todo:
                with ProcessPoolExecutor(1, mp_context=context) as pool:
                    pool.submit(fit_all, name, seed, todo).result()


def read(name: str, seeds: Sequence[int]) -> tuple[dict[str, Result], dict[str, str]]:
    """The kept results of one set, and why systems were not run."""
    found: dict[str, Result] = {}
    refused: dict[str, str] = {}

    def add(system: str, seed: int, test: Any, vali: float, cpu: float) -> None:
        result = found.setdefault(system, Result({}, {}, {}))
        result.test[seed], result.vali[seed], result.cpu[seed] = test, vali, cpu

    for seed in seeds:
        trials: dict[str, list[Any]] = {}
        for system in systems(seed):
            path = kept_path(name, seed, system) if system.installed else None
            if path is None or not path.exists():
                continue
            content = json.loads(path.read_text("utf-8"))
            if "refused" in content:
                refused[system.name] = content["refused"]
            elif system.trial:
                trials.setdefault(system.family, []).append(content)
            else:
                add(system.name, seed, content["test"], content.get("vali", np.nan), content["cpu"])
        for family, each in trials.items():
            if len(each) == TRIALS:
                best = max(each, key=lambda content: content["vali"])
                cpu = sum(content["cpu"] for content in each)
                add(f"{family}, search", seed, best["test"], best["vali"], cpu)
    return found, refused


# --- Statistics ---------------------------------------------------------------------------------


class Estimate(NamedTuple):
    """A mean and its 95 % interval."""

    mean: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.mean:+.4f} [{self.low:+.4f}, {self.high:+.4f}]"


class Comparison(NamedTuple):
    """AutoRanker minus an opponent on one set, by query, with the p-value after Holm."""

    name: str
    opponent: str
    lead: Estimate
    p: float

    @property
    def is_below(self) -> bool:
        return self.lead.mean < 0 and self.p <= 0.05


def query_means(values: Values) -> dict[str, float]:
    """The mean of each query over the seeds that test it."""
    lists: dict[str, list[float]] = {}
    for seed in values:
        for query, value in values[seed].items():
            lists.setdefault(query, []).append(value)
    return {query: float(np.mean(each)) for query, each in lists.items()}


def differences(ours: Values, theirs: Values) -> np.ndarray:
    """Ours minus theirs: one number per query, over the seeds that both have."""
    common = {
        seed: {query: ours[seed][query] - theirs[seed][query] for query in ours[seed]}
        for seed in ours
        if seed in theirs
    }
    return np.array(list(query_means(common).values()))


def pooled(groups: Sequence[np.ndarray], weights: Sequence[float] | None = None) -> Estimate:
    """The weighted mean of the groups' means; the interval draws again within each group."""
    share = np.ones(len(groups)) if weights is None else np.asarray(weights, np.float64)
    share = share / share.sum()
    rng, means = np.random.default_rng(0), np.zeros(N_RESAMPLES)
    for values, weight in zip(groups, share, strict=True):
        size = len(values)
        means += weight * np.array(
            [values[rng.integers(size, size=size)].mean() for _ in range(N_RESAMPLES)]
        )
    mean = float(share @ [values.mean() for values in groups])
    return Estimate(mean, *np.quantile(means, [0.025, 0.975]).tolist())


def best_peer(peers: Mapping[str, Result], choice: str) -> tuple[dict[int, Any], dict[int, str]]:
    """The test values, and the name, of the peer that is best on the validation queries."""
    seeds = [
        seed
        for seed in next(iter(peers.values())).vali
        if all(seed in peer.vali for peer in peers.values())
    ]

    def reached(peer: str, seed: int) -> float:
        vali = peers[peer].vali
        return vali[seed] if choice == "set and seed" else float(np.mean([vali[s] for s in seeds]))

    chosen = {seed: max(peers, key=lambda peer: reached(peer, seed)) for seed in seeds}
    return {seed: peers[peer].test[seed] for seed, peer in chosen.items()}, chosen


def compare(leads: Mapping[tuple[str, str], np.ndarray]) -> list[Comparison]:
    """AutoRanker's leads by set and opponent, tested together."""
    p = holm([randomization(lead, np.zeros(len(lead))) for lead in leads.values()])
    return [
        Comparison(*key, pooled([lead]), float(adjusted))
        for (key, lead), adjusted in zip(leads.items(), p, strict=True)
    ]


# --- Tables -------------------------------------------------------------------------------------


def print_table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    print(f"| {' | '.join(head)} |\n|{' :- |' + ' -: |' * (len(head) - 1)}")
    for row in rows:
        print(f"| {' | '.join(row)} |")
    print()


def print_sets() -> None:
    rows = []
    for name, (source, parts, chooses) in SETS.items():
        fold = load(name, 1)
        items = fold.train, fold.vali, fold.test
        sizes = [f"{part.n_queries} ({part.n_items:,})" for part in items]
        use = "chooses" if chooses else "confirms"
        rows.append([name, source, parts, *sizes, str(fold.train.n_features), use])
    print(
        "Queries (documents) of each part, seed 1; settings are chosen on a set or confirmed by it."
    )
    print_table(
        ["set", "source", "parts", "training", "validation", "test", "features", "use"], rows
    )


def print_means(found: Mapping[str, dict[str, Result]], n_seeds: int) -> dict[str, Any]:
    """Mean NDCG@10 over test queries, set by set; a number in parentheses counts the seeds."""
    names = [AUTO, *DEFAULTS, *PEERS]
    means: dict[str, dict[str, float]] = {name: {} for name in names}
    rows = []
    for system in names:
        cells = []
        for name in SETS:
            result = found[name].get(system)
            if result is None:
                cells.append("-")
                continue
            mean = float(np.mean(list(query_means(result.test).values())))
            means[system][name] = mean
            few = f" ({len(result.test)})" if len(result.test) < n_seeds else ""
            cells.append(f"{mean:.4f}{few}")
        rows.append([system, *cells])
    print(f"{MEASURE} on test queries, mean over seeds.")
    print_table(["system", *SETS], rows)
    return means


def print_cpu(found: Mapping[str, dict[str, Result]]) -> None:
    """Median CPU seconds of a fit, and AutoRanker's as multiples of CatBoost's with defaults."""

    def median(name: str, system: str) -> float:
        result = found[name].get(system)
        return float(np.median(list(result.cpu.values()))) if result else np.nan

    def shown(number: float, digits: int) -> str:
        return "-" if np.isnan(number) else f"{number:.{digits}f}"

    rows = [
        [system, *(shown(median(name, system), 1) for name in SETS)]
        for system in (AUTO, *DEFAULTS, *PEERS)
    ]
    for peer in ("CatBoost YetiRank", "CatBoost QueryRMSE"):
        ratios = [median(name, AUTO) / median(name, peer) for name in SETS]
        rows.append([f"{AUTO} / {peer}", *(shown(ratio, 2) for ratio in ratios)])
    print("CPU seconds of a fit, one thread, median over seeds.")
    print_table(["system", *SETS], rows)


def print_verdict(found: Mapping[str, dict[str, Result]], n_seeds: int, choice: str) -> Any:
    """The differences, and each rule in words, for one way to choose the best peer."""
    print(f"Best single peer chosen for each {choice}.")
    leads: dict[tuple[str, str], np.ndarray] = {}
    missing = []
    for name in SETS:
        results = found[name]
        if AUTO not in results or len(results[AUTO].test) < n_seeds:
            missing.append(f"{AUTO} on {name}")
        peers = {peer: results[peer] for peer in PEERS if peer in results}
        if len(peers) < len(PEERS) or any(len(p.test) < n_seeds for p in peers.values()):
            missing.append(f"peers on {name}")
        values, chosen = best_peer(peers, choice) if peers else ({}, {})
        if values:
            mean = np.mean(list(query_means(values).values()))
            print(f"  {name}: {', '.join(dict.fromkeys(chosen.values()))}: {mean:.4f}")
        opponents = {"best peer": values} | {
            system: results[system].test if system in results else {} for system in DEFAULTS
        }
        for opponent, theirs in opponents.items():
            lead = differences(results[AUTO].test if AUTO in results else {}, theirs)
            if len(lead):
                leads[name, opponent] = lead
    print()
    if not leads:
        return None
    comparisons = compare(leads)
    print(f"{AUTO} minus opponent, {MEASURE} by query, 95 % interval; p after Holm's correction.")
    print_table(
        ["set", "opponent", "queries", "difference", "p", ""],
        [
            [c.name, c.opponent, str(len(leads[c.name, c.opponent])), str(c.lead), f"{c.p:.3f}",
             "**below**" if c.is_below else ""]
            for c in comparisons
        ],
    )  # fmt: skip
    against_peer = {name: lead for (name, other), lead in leads.items() if other == "best peer"}
    if not against_peer:
        return None
    lead = pooled(list(against_peer.values()))
    sizes = [len(values) for values in against_peer.values()]
    print(f"Pooled lead over the best peer: {lead} ({len(against_peer)} sets, equal weights)")
    print(f"  queries with equal weights: {pooled(list(against_peer.values()), sizes)}")
    for use, chooses in (("chosen on", True), ("confirmed by", False)):
        some = [values for name, values in against_peer.items() if SETS[name].chooses == chooses]
        if some:
            print(f"  sets that settings were {use}: {pooled(some)}")
    below = [c for c in comparisons if c.is_below]
    rules = {
        "1. The pooled lead over the best peer is above 0": lead.low > 0,
        "2. On no set significantly below the best peer": not any(
            c.opponent == "best peer" for c in below
        ),
        "3. On no set significantly below our rankers with defaults": all(
            c.opponent == "best peer" for c in below
        ),
    }
    print()
    for rule, holds in rules.items():
        print(f"{rule}: {'yes' if holds else '**NO**'}")
    if missing:
        print(f"Preliminary; missing: {', '.join(missing)}.")
    print()
    return {"pooled": lead, "rules": rules, "missing": missing}


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="letor/table_default", allow_abbrev=False)
    parser.add_argument("--sets", default=",".join(SETS))
    parser.add_argument("--systems", default="")
    parser.add_argument("--seeds", default=",".join(map(str, SEEDS)))
    parser.add_argument("--defaults", action="store_true")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--kept", action="store_true")
    options = parser.parse_args(argv or [])
    sets = options.sets.split(",")
    if unknown := [name for name in sets if name not in SETS]:
        parser.error(f"--sets: no set {', '.join(unknown)}; there are {', '.join(SETS)}.")
    seeds = [1] if options.quick else [int(seed) for seed in options.seeds.split(",")]
    words = options.systems.split(",")

    def wanted(system: System) -> bool:
        skipped = system.trial and (options.quick or options.defaults)
        return any(word in system.name for word in words) and not skipped

    if not options.kept:
        try:
            run(sets, seeds, wanted)
        except rw.exceptions.DatasetError as error:
            print(f"needs the data sets: {error}")
            return
    found: dict[str, dict[str, Result]] = {}
    refusals = []
    for name in SETS:
        found[name], refused = read(name, seeds if options.quick else SEEDS)
        refusals += [f"{system} on {name}: not run. {why}" for system, why in refused.items()]
    n_seeds = len(seeds) if options.quick else len(SEEDS)
    print_sets()
    means = print_means(found, n_seeds)
    print("\n".join([*refusals, ""]))
    verdicts = {choice: print_verdict(found, n_seeds, choice) for choice in CHOICES}
    print_cpu(found)
    RESULTS.mkdir(exist_ok=True)
    content = {"means": means, "verdicts": verdicts}
    (RESULTS / "letor_default.json").write_text(json.dumps(content, indent=1), "utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
