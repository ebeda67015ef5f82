"""The boosting loop: rounds until their number, a callback or early stopping ends them."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rankwright._typing import FloatArray, IntArray
from rankwright.feedback.base import Feedback
from rankwright.parallel import Team
from rankwright.rankers.boosting.binning import Columns
from rankwright.rankers.boosting.ensemble import Ensemble, round_scores
from rankwright.rankers.boosting.grower import TreeLearner, TreeRanking
from rankwright.rankers.boosting.pair_weights import PairDistribution
from rankwright.rankers.boosting.splitting import DEFAULTS, Scan, team_for
from rankwright.rankers.boosting.weak_learners import (
    Round,
    ThresholdLearner,
    ValueLearner,
    WeakLearner,
    WeakRanking,
)
from rankwright.rankers.early_stopping import Validation


@dataclass(frozen=True)
class Entries:
    """Known values by row, as numbers of bins; bins by feature, values descending.

    Attributes
    ----------
    ptr : (n_rows + 1,) int64, where the entries of each row start
    bin : (n_entries,) uint32, the bin of each entry
    bin_ptr : (n_features + 1,) int64, where the bins of each feature start
    bin_value : (n_bins,) float64, the highest value of each bin
    abstains : (n_features,) bool, whether any row lacks the feature
    """

    ptr: IntArray
    bin: NDArray[np.uint32]
    bin_ptr: IntArray
    bin_value: FloatArray
    abstains: NDArray[np.bool_]

    @classmethod
    def read(cls, columns: Columns) -> Entries:
        """One bin for each value, but where a feature has more values than bins are allowed."""
        from rankwright.rankers.boosting._kernels import sparse as _kernels

        ptr, feature, value = columns.known()
        order, starts = np.empty(len(value), np.int64), np.zeros(len(value), bool)
        first = np.concatenate([[0], np.cumsum(np.bincount(feature, minlength=columns.n_features))])
        _kernels.sort_entries(feature, value, first, order, starts)
        n_bins = np.add.reduceat(np.append(starts, False), first[:-1], dtype=np.int64)
        n_bins[first[:-1] == first[1:]] = 0
        if columns.max_bins is not None:
            for each in np.flatnonzero(n_bins >= columns.max_bins).tolist():
                lower = slice(first[each] + 1, first[each + 1])
                starts[lower] = columns.read(each).starts[1:]
                n_bins[each] = 1 + starts[lower].sum()
        number = np.empty(len(value), np.uint32)
        number[order] = np.cumsum(starts) - 1
        bin_ptr = np.concatenate([[0], np.cumsum(n_bins)])
        return cls(ptr, number, bin_ptr, value[order[starts]], np.diff(first) < columns.n_rows)


SMALL = 200_000  # values in X up to which one thread is as good as many
STRETCH = 100_000_000  # values looked at (about 0.1 s) before somebody may interrupt


def is_compact(model: Any, X: Any, pairs: PairDistribution) -> bool:
    """Whether training may go this way: thresholds, the criterion r, graded rows, few values."""
    if (
        model.estimator != "threshold"
        or model.criterion != "r"
        or model.weighting is not None
        or model.callbacks
        or not pairs.levels.direct
        or len(pairs.levels.member) == 0
        or len(pairs.pairs.lower)
    ):
        return False
    if hasattr(X, "tocsr"):
        return bool(model.absent == "abstain" and X.nnz <= SMALL)
    return bool(X.size <= SMALL or X.size - np.count_nonzero(np.isnan(X)) <= SMALL)


def boost_compactly(
    model: Any, columns: Columns, pairs: PairDistribution, smoothing: float
) -> tuple[list[WeakRanking], list[float]]:
    """The weak rankings of all rounds and their z; moves the scores of ``pairs``, nothing else."""
    from rankwright.rankers.boosting._kernels import sparse as _kernels

    entries, levels = Entries.read(columns), pairs.levels
    signed, upward = model.cumulative == "signed", model.cumulative is True
    direction = np.full(columns.n_features, int(upward), np.int8)
    chosen, weight = np.zeros((model.n_estimators, 3), np.int64), np.zeros(model.n_estimators)
    state = np.array([pairs.total, pairs.unit + np.log(pairs.total), 0.0])
    stretch = 1 + STRETCH // (1 + len(entries.bin))
    rounds: list[WeakRanking] = []
    logs = [np.array([state[1]])]
    with progress_bar(type(model).__name__, model.n_estimators, model.verbose) as show:
        while len(rounds) < model.n_estimators:
            n = min(stretch, model.n_estimators - len(rounds))
            found, alpha, log_weight = np.zeros((n, 3), np.int64), np.zeros(n), np.zeros(n)
            done = _kernels.boost(
                entries.ptr, entries.bin, entries.bin_ptr, entries.abstains, pairs.scores,
                pairs.potential, levels.arrays, levels.room, direction, signed, upward,
                np.array(DEFAULTS[model.default]), smoothing, Scan.margin, state, chosen, weight,
                found, alpha, log_weight,
            )  # fmt: skip
            rounds += _weak_rankings(entries, found[:done], alpha[:done])
            logs.append(log_weight[:done])
            show(len(rounds), f"bound {np.exp(state[1] - logs[0][0]):.4g}")
            if done < n:
                break
    z: list[float] = np.exp(np.diff(np.concatenate(logs))).tolist()
    return rounds, z


def _weak_rankings(entries: Entries, found: Any, alpha: Any) -> list[WeakRanking]:
    feature, cut, default = found.T
    place = entries.bin_ptr[feature] + cut
    threshold = np.append(entries.bin_value, 0.0)[place]
    threshold[place == entries.bin_ptr[feature + 1]] = -np.inf
    return [
        WeakRanking(*each)
        for each in zip(
            feature.tolist(), threshold.tolist(), default.tolist(), alpha.tolist(), strict=True
        )
    ]


@dataclass(frozen=True)
class Trained:
    """What training found."""

    ensemble: Ensemble
    z: list[float]
    wrong: float
    tied: float
    n_lower: int
    n_upper: int
    validation: FloatArray | None


def boost(model: Any, X: Any, feedback: Feedback, validation: Validation | None) -> Trained:
    """Train with the parameters of a RankBoost."""
    with team_for(X) as team:
        grows = isinstance(model.estimator, TreeRanking)
        pairs = PairDistribution(
            feedback, X.shape[0], team, want_mass=True, weighting=model.weighting
        )
        rounds: list[Any] = []
        z: list[float] = []
        if validation is None and is_compact(model, X, pairs):
            rounds, z = boost_compactly(
                model, _columns(model, X, pairs), pairs, _smoothing(model, pairs)
            )
        elif len(pairs.rows):
            learner = _learner(model, X, pairs, team)
            if not grows:
                pairs.mass = np.zeros(0)
            rounds, z = _loop(model, pairs, learner, validation)
    abstain = model.absent == "abstain"
    kept = validation.n_kept(len(rounds)) if validation else len(rounds)
    ensemble = Ensemble.from_rounds(
        X.shape[1], abstain, rounds[:kept], grows, model.estimator == "value"
    )
    if kept < len(rounds):
        wrong, tied = pairs.disorder(ensemble.scorer(kept).decision_function(X)[pairs.rows])
    else:
        wrong, tied = pairs.disorder()
    curve = np.array(validation.curve) if validation else None
    return Trained(ensemble, z[:kept], wrong, tied, pairs.n_lower, pairs.n_upper, curve)


def _columns(model: Any, X: Any, pairs: PairDistribution) -> Columns:
    return Columns(X, pairs.rows, pairs.mass, model.max_bins, model.absent == "abstain")


def _smoothing(model: Any, pairs: PairDistribution) -> float:
    if model.smoothing is not None:
        return float(model.smoothing)
    # A weight of k counts as k copies: then there are as many pairs as there is weight.
    return float(1.0 / (2.0 * max(pairs.n_pairs, pairs.weight, 2.0)))


def _learner(model: Any, X: Any, pairs: PairDistribution, team: Team) -> WeakLearner:
    columns = _columns(model, X, pairs)
    options = {"default": model.default, "smoothing": _smoothing(model, pairs)}
    if isinstance(model.estimator, TreeRanking):
        search = model.weighting is None
        return TreeLearner(columns, team, model.estimator, line_search=search, **options)
    options |= {"criterion": model.criterion, "cumulative": model.cumulative}
    if model.estimator == "value":
        return ValueLearner(columns, team, **options)
    return ThresholdLearner(columns, pairs, team, **options)


def _loop(
    model: Any,
    pairs: PairDistribution,
    learner: WeakLearner,
    validation: Validation | None,
) -> tuple[list[Any], list[float]]:
    rounds: list[Any] = []
    z: list[float] = []
    with progress_bar(type(model).__name__, model.n_estimators, model.verbose) as show:
        for number in range(1, model.n_estimators + 1):
            before = pairs.log_weight
            weak = learner.learn(pairs)
            if weak is None:
                break
            rounds.append(weak)
            z.append(float(np.exp(pairs.log_weight - before)))
            bound = float(np.exp(pairs.log_weight))
            show(number, f"bound {bound:.4g}")
            stop, value = False, None
            if validation is not None:
                added = round_scores(weak, validation.X, model.absent == "abstain")
                stop = validation.add(added)
                value = validation.curve[-1]
            report = Round(number, weak, z[-1], bound, value)
            stop = sum(bool(callback(report)) for callback in model.callbacks or []) > 0 or stop
            if stop:
                break
    return rounds, z


@contextmanager
def progress_bar(title: str, n_steps: int, verbose: int) -> Iterator[Callable[[int, str], None]]:
    """Give a function ``show(step, note)``; it draws only if standard error is a terminal."""
    if not verbose or not sys.stderr.isatty():
        yield lambda step, note: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn
    from rich.progress import TimeRemainingColumn as Remaining

    columns: list[Any] = [TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn()]
    columns += [Remaining(), TextColumn("{task.fields[note]}")]
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(title, total=n_steps, note="")
        yield lambda step, note: bar.update(task, completed=step, note=note)
