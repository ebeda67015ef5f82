"""RankBoost over shards: the weak rankings of a local fit, from sums of integers.

Workers hold codes of bins and the levels of their queries. A round sends the chosen cut; workers
move their scores by it, and send back the histogram of potentials and the weight of their pairs.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator

from rankwright._typing import BoolArray, FloatArray, IntArray, Matrix
from rankwright.data.vocabulary import hash_rows
from rankwright.distributed.base import Engine, ShardedValues
from rankwright.distributed.bins import ReadColumn, by_columns, learn_edges
from rankwright.distributed.fitting import refuse
from rankwright.distributed.shards import Shard, ShardedRows, join_grades, join_matrices
from rankwright.exceptions import DegenerateDataWarning, ParameterError
from rankwright.feedback.pair_weights import (
    NO_CHANGE,
    GradeGroups,
    LevelState,
    Move,
    PairDistribution,
    Potentials,
    count_roles,
    power_above,
    read_feedback,
    sum_of_units,
    unit_sum,
)
from rankwright.rankers.boosting.binning import integer_mass
from rankwright.rankers.boosting.ensemble import (
    BASELINE_ROWS,
    BoostedEnsemble,
    feature_parts,
    typical_rows,
)
from rankwright.rankers.boosting.rankboost import NO_EDGE
from rankwright.rankers.boosting.training import (
    Start,
    TrainingResult,
    run_rounds,
    smoothing_of,
)
from rankwright.rankers.boosting.weak_learners import splitting
from rankwright.rankers.boosting.weak_learners.features import FeatureLearner
from rankwright.rankers.boosting.weak_learners.splitting import (
    DEFAULTS,
    UNIT,
    BinnedScan,
    Bins,
    Cuts,
    Gains,
    Weighted,
    binary_ranking,
    put_codes,
)
from rankwright.rankers.early_stopping import EarlyStopping, Validation
from rankwright.runtime import Team
from rankwright.scoring.base import Scorer
from rankwright.scoring.linear import Additive


class Cut(NamedTuple):
    """A weak ranking of workers: rows with a code above the cut, or the default."""

    feature: int
    cut: int
    default: int

    @property
    def dtype(self) -> Any:
        """Its values are 0 and 1, as ``PairDistribution.move`` asks."""
        return np.dtype(np.uint8)

    @property
    def size(self) -> int:
        return 1


class PairedRows(NamedTuple):
    """The rows of a block that are in some pair, level by level."""

    shard: Any  # the place of each row: its shard in the block, and its number there
    row: IntArray
    levels: GradeGroups
    scale: float  # the logarithm of the weight of all pairs


class BoostingState(NamedTuple):
    """What a round makes of the last one; it is not changed."""

    scores: FloatArray
    levels: LevelState
    potential: FloatArray
    mass: FloatArray


class Facts(NamedTuple):
    """What is known of the pairs of some rows; whole numbers, so they add up in any order."""

    weight: float
    n_pairs: int
    n_rows: int
    n_queries: int
    n_lower: int
    n_upper: int
    n_known: int  # values that are not missing
    odd: bool  # whether a weight is not a whole number, or rows are sparse


def fit(estimator: BaseEstimator, engine: Engine, rows: ShardedRows, start: Start) -> None:
    """Set what ``RankBoost.fit`` sets."""
    estimator._check_together()
    stopping = EarlyStopping.from_parameter(estimator.early_stopping)
    if rows.eval_set is None and stopping is not None:
        raise ParameterError(
            f"RankBoost(early_stopping={estimator.early_stopping!r}) on an engine holds out no "
            "queries: pass eval_set=(X, y) and eval_qid to fit."
        )
    validation = None if rows.eval_set is None else Validation(rows.eval_set, stopping)
    facts = engine.reduce(engine.map(find_facts, rows.shards), add_facts)
    if facts.n_known <= splitting.FEW_ENTRIES:
        _fit_here(estimator, engine, rows, validation)
        return
    _check(estimator, facts)
    if engine.memory is not None:
        rows = replace(rows, shards=engine.map(by_columns, rows.shards))
    _boost(estimator, engine, rows, validation, facts)


def _check(estimator: BaseEstimator, facts: Facts) -> None:
    refuse(
        estimator,
        criterion="workers sum potentials, which is the criterion 'r'",
        estimator="workers have thresholds on bins as weak rankings",
        weighting="workers weigh every pair the same",
        absent="rows are dense",
    )
    if estimator.default not in DEFAULTS:
        raise ParameterError(
            f"RankBoost(default={estimator.default!r}) on an engine: only 0/1 rankings are "
            "supported. Use 'learned', 0 or 1, or fit on one machine."
        )
    if estimator.max_bins is None:
        raise ParameterError("RankBoost(max_bins=None) on an engine: give 2 to 255 bins.")
    if facts.odd:
        raise ParameterError(
            "RankBoost on an engine needs dense rows and integer weights, whose sums do not depend "
            "on their order. Use LambdaMART, or one machine."
        )


def _fit_here(
    estimator: BaseEstimator, engine: Engine, rows: ShardedRows, validation: Validation | None
) -> None:
    """So few values are faster in one place."""
    shards: list[Shard] = engine.gather(rows.shards)
    X = join_matrices([shard.X for shard in shards])
    estimator._fit(X, join_grades(shards), validation)


def find_facts(shard: Shard) -> Facts:
    grades = shard.feedback
    used, levels, pairs = read_feedback(grades, len(shard.y))
    weights = np.concatenate([shard.sample_weight, shard.query_weight])
    sparse = hasattr(shard.X, "tocsr")
    n_known = shard.X.nnz if sparse else shard.X.size - np.count_nonzero(np.isnan(shard.X))
    return Facts(
        grades.total_weight, grades.n_pairs, len(used), len(levels.query_weight),
        *count_roles(levels, pairs, len(used)), int(n_known),
        sparse or bool((weights != np.rint(weights)).any()),
    )  # fmt: skip


def add_facts(one: Facts, other: Facts) -> Facts:
    return Facts._make(a + b for a, b in zip(one, other, strict=True))


def find_rows(shards: list[Shard], scale: float) -> PairedRows:
    """The rows in use and their levels, in the order of a local fit."""
    key = np.concatenate([hash_rows(s.X, s.y, s.sample_weight) for s in shards])
    used, levels, _ = read_feedback(join_grades(shards), len(key), key)
    first = np.cumsum([0, *(len(shard.y) for shard in shards)])
    shard = np.searchsorted(first, used, side="right") - 1
    return PairedRows(shard, used - first[shard], levels, scale)


def column(shards: list[Shard], rows: PairedRows, feature: int) -> FloatArray:
    """A feature of the rows in use."""
    values = np.empty(len(rows.row))
    for number, shard in enumerate(shards):
        own = rows.shard == number
        values[own] = shard.X[rows.row[own], feature]
    return values


def first_state(rows: PairedRows) -> BoostingState:
    n = len(rows.row)
    state = BoostingState(np.zeros(n), LevelState.empty(rows.levels), np.zeros(n), np.zeros(n))
    return _moved(rows, state, Move(NO_CHANGE, 0.0, True, rows.scale, 1.0))


def _moved(rows: PairedRows, state: BoostingState, move: Move) -> BoostingState:
    from rankwright.feedback._kernels.levels import level_potentials

    levels = LevelState(*(array.copy() for array in state.levels))
    new = BoostingState(state.scores.copy(), levels, np.zeros_like(state.potential), state.mass)
    out, n_queries = Potentials(new.potential, new.mass), len(rows.levels.query_weight)
    level_potentials(new.scores, move, rows.levels, new.levels, 0, n_queries, out)
    return new


def peaks(state: BoostingState) -> FloatArray:
    """The largest weight of a query and the largest mass of a row."""
    return np.array([state.levels.query_sum.max(initial=0.0), state.mass.max(initial=0.0)])


def read_mass(
    shards: list[Shard],
    held: list[PairedRows],
    state: list[BoostingState],
    heaviest: float,
    n_rows: int,
) -> ReadColumn:
    """A function of a feature: its values and the mass of each row, as whole numbers."""
    mass = integer_mass(state[0].mass, heaviest, n_rows)
    return lambda feature: (column(shards, held[0], feature), mass)


def find_cuts(max_bins: int, feature: int, values: FloatArray, mass: IntArray) -> FloatArray:
    """The highest values of bins, as ``Columns`` cuts them: at most ``max_bins`` of equal mass."""
    from rankwright.rankers.boosting._kernels.binning import find_bins

    if len(values) + 1 <= max_bins:
        return values
    begins = np.zeros(len(values), bool)
    find_bins(mass.astype(np.float64), max_bins, begins)
    return np.append(values[np.flatnonzero(begins) - 1], values[-1:])


def encode(shards: list[Shard], rows: list[PairedRows], edges: list[FloatArray]) -> Any:
    """How many edges are below each value, or 255 where it is missing, four features to a word."""
    n_rows = len(rows[0].row)
    words = np.zeros((-(-len(edges) // 4), n_rows), np.uint32)
    for feature, own in enumerate(edges):
        values = column(shards, rows[0], feature)
        known = ~np.isnan(values)
        codes = np.full(n_rows, 255, np.uint8)
        codes[known] = np.searchsorted(own[:-1], values[known])
        put_codes(codes, feature, words)
    return words


def lacks(codes: NDArray[np.uint32], n_features: int) -> BoolArray:
    """Whether any row lacks each feature."""
    by_byte = [((codes >> np.uint32(8 * k)) & 255 == 255).any(axis=1) for k in range(4)]
    return np.stack(by_byte, axis=1).ravel()[:n_features]


def without_mass(state: BoostingState) -> BoostingState:
    return state._replace(mass=np.zeros(0))


def advance(
    codes: NDArray[Any], rows: PairedRows, state: BoostingState, move: Move, abstains: bool
) -> BoostingState:
    """Move the scores by a cut."""
    feature, cut, default = move.h
    h = binary_ranking(codes, feature, cut, abstains and default == 0)
    return _moved(rows, state, move._replace(h=h))


def summarize(codes: NDArray[Any], state: BoostingState, bound: float) -> tuple[int, IntArray]:
    """The weight of all pairs and the histogram of potentials, as whole numbers."""
    from rankwright.rankers.boosting._kernels.splitting import sum_part

    n_blocks, n = codes.shape
    units, sums = np.zeros(n, np.int64), np.zeros((4 * n_blocks, 256), np.int64)
    sum_part(codes, state.potential, UNIT / bound, 0, n, units, sums)
    return unit_sum(state.levels.query_sum, bound), sums


class ShardPairs(PairDistribution):
    """The distribution over pairs that workers hold; ``sums`` is the histogram of potentials."""

    def __init__(
        self, engine: Engine, rows: ShardedValues, state: ShardedValues, facts: Facts
    ) -> None:
        self._engine, self._rows, self.state = engine, rows, state  # type: ignore[assignment]
        self.weight, self.n_pairs, self._n_queries = facts.weight, facts.n_pairs, facts.n_queries
        self.log_weight, self.total, self.unit = 0.0, 1.0, 0.0
        self.shift = self._first_shift = self._refresh_shift = float(np.log(self.weight))
        self._travel, self._moves = 0.0, 0

    def start(self, codes: ShardedValues, abstains: BoolArray, bound: float) -> None:
        """Take the first weights of all pairs as the unit."""
        self._codes, self._abstains, self.bound = codes, abstains, bound
        self._arrive(self._summed())
        self._first_shift, self.log_weight = self.shift, 0.0

    def move(self, h: Any, step: float, then: Callable[[int], None] | None = None) -> None:
        move, lacking = self._next_move(h, step), bool(self._abstains[h.feature])
        held = self._codes, self._rows, self.state
        self.state = self._engine.map(advance, held, move, lacking)  # type: ignore
        self._arrive(self._summed())

    def _summed(self) -> float:
        held: Any = self._codes, self.state
        if not self.bound:  # after a large step: one more round
            peak = self._engine.reduce(self._engine.map(peaks, held[1]), np.maximum)[0]
            self.bound = power_above(float(peak), self._n_queries)
        parts = self._engine.map(summarize, held, self.bound)
        units, self.sums = self._engine.reduce(parts, add_pairs)
        return sum_of_units(units, self.bound)


class ShardScan(BinnedScan):
    """The best cuts of features whose histograms workers make."""

    def __init__(self, edges: list[Any], abstains: BoolArray, pool: Team) -> None:
        n = self.n_features = len(edges)
        self._edges, self.abstains, self._pool, self.n_rows = edges, abstains, pool, 0
        n_cuts = np.array([max(len(own) - 1, 0) for own in edges], np.int64)
        self.bins = Bins(np.zeros((0, 0), np.uint32), n_cuts, abstains)
        self.gains, self._sums = Gains.empty(n), np.zeros((n, 256))
        self.blocks = [(0, n)]

    def scan(self, pairs: Any, earlier: Cuts) -> FloatArray:
        self._part_sums, self._summed = pairs.sums[None], True
        return super().scan(pairs, earlier)

    def part_callback(self, pairs: Weighted) -> None:
        return None

    def h(self, feature: int, cut: int, default: int) -> Any:
        return Cut(feature, cut, default)


def _boost(
    model: BaseEstimator,
    engine: Engine,
    rows: ShardedRows,
    validation: Validation | None,
    facts: Facts,
) -> None:
    rounds: list[Any] = []
    z: list[float] = []
    if facts.n_rows:
        rounds, z = _rounds(model, engine, rows, validation, facts)
    kept = validation.n_kept(len(rounds)) if validation else len(rounds)
    ensemble = BoostedEnsemble.from_rounds(rows.n_features, False, rounds[:kept], False, False)
    scorer = ensemble.scorer(kept)
    measured = engine.reduce(engine.map(disorder, rows.shards, scorer), np.add)
    wrong, tied = (measured / facts.weight).tolist() if facts.weight else (0.0, 0.0)
    bound = float(np.exp(np.log(z[:kept]).sum()))
    curve = np.array(validation.curve) if validation else None
    if not z[:kept] and facts.weight > 0:
        warnings.warn(NO_EDGE, DegenerateDataWarning, stacklevel=7)
    roles = facts.n_lower, facts.n_upper
    model._keep(TrainingResult(ensemble, z[:kept], bound, wrong, tied, *roles, curve))
    model.baseline_ = None
    if isinstance(scorer, Additive):
        typical, _ = engine.reduce(engine.map(typical_of, rows.shards), most_typical)
        model.baseline_ = np.asarray(feature_parts(scorer, typical).mean(axis=0))


def _rounds(
    model: BaseEstimator,
    engine: Engine,
    rows: ShardedRows,
    validation: Validation | None,
    facts: Facts,
) -> tuple[list[Any], list[float]]:
    own = engine.map_blocks(find_rows, rows.shards, float(np.log(facts.weight)))
    state = engine.map(first_state, own)
    peak, heaviest = engine.reduce(engine.map(peaks, state), np.maximum).tolist()
    held, size = (rows.shards, own, state), (facts.n_rows, rows.n_features)
    find = partial(find_cuts, model.max_bins)
    edges = learn_edges(engine, read_mass, find, held, size, heaviest, facts.n_rows)
    codes = engine.map_blocks(encode, (rows.shards, own), engine.broadcast(edges))
    abstains = engine.reduce(engine.map(lacks, codes, len(edges)), np.logical_or)
    pairs = ShardPairs(engine, own, engine.map(without_mass, state), facts)
    pairs.start(codes, abstains, power_above(peak, facts.n_queries))
    with Team(1) as pool:
        scan = ShardScan(edges, abstains, pool)
        return run_rounds(
            model, pairs, FeatureLearner(model, scan, smoothing_of(model, pairs)), validation
        )


def disorder(shard: Shard, scorer: Scorer) -> FloatArray:
    """The weights of the pairs in the wrong order and of tied ones; sums of whole numbers."""
    from rankwright.feedback._kernels.levels import level_disorder

    used, levels, _ = read_feedback(shard.feedback, len(shard.y))
    scores = scorer.decision_function(shard.X) if len(shard.y) else np.zeros(0)
    return np.array(level_disorder(scores[used], levels), np.float64)


def typical_of(shard: Shard) -> tuple[Any, Any]:
    return typical_rows(shard.X)


Typical: TypeAlias = tuple[Matrix, NDArray[Any]]  # rows, and their hashes


def most_typical(one: Typical, other: Typical) -> Any:
    """Of the rows of two shards those with the smallest hashes."""
    hashes = np.concatenate([one[1], other[1]])
    order = np.argsort(hashes, kind="stable")[:BASELINE_ROWS]
    return join_matrices([one[0], other[0]])[order], hashes[order]


def add_pairs(one: tuple[Any, Any], other: tuple[Any, Any]) -> Any:
    return one[0] + other[0], one[1] + other[1]
