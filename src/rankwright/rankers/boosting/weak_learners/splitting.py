"""Criterion r: the best cut of every feature by the potentials of the rows.

Also what all criteria share: the base class of scans, and the choice among the cuts allowed.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple, Protocol, Self

import numpy as np
from numpy.typing import NDArray

from rankwright._typing import BoolArray, FloatArray, IntArray
from rankwright.feedback.pair_weights import Binary, pointers
from rankwright.rankers.boosting.binning import BinnedRows, FeatureColumns, SparseBins
from rankwright.runtime import Team, ranges

DEFAULTS = {"learned": (True, True), 0: (True, False), 1: (False, True)}
# EntryScan is taken up to so many values that are present, and if they are at most this share.
# Receipt: `python -m benchmarks rankboost ratings`, 3.1x on 100 films x 1,000 users.
FEW_ENTRIES, MOSTLY_MISSING = 200_000, 0.25
UNIT = 2.0**60  # potentials are rounded to integers times the bound of their sum over this
Parts = list[tuple[int, int]]  # ranges of rows
Int32Array = NDArray[np.int32]


class Weighted(Protocol):
    """What a scan reads: potentials, their sum ``whole``, and the weight ``total`` of all pairs.

    ``bound`` is a power of two, at least half the sum of all |potentials|, known before them.
    """

    potential: FloatArray
    total: float
    whole: float
    bound: float


class Cuts(NamedTuple):
    """Some cuts; what a cut number means depends on the scan."""

    feature: IntArray
    cut: IntArray
    default: IntArray


class Gains(NamedTuple):
    """Per default and feature: the best gain upward (top) and downward (bottom), with their cuts.

    A gain has the sign of the weight of its weak ranking; a cut of -2 is none.
    """

    top: FloatArray  # (2, n_features)
    top_cut: IntArray
    bottom: FloatArray
    bottom_cut: IntArray
    present: FloatArray  # (n_features,) the gain of "has the feature"

    @classmethod
    def empty(cls, n_features: int) -> Self:
        shape = 2, n_features
        top, bottom = np.full(shape, -np.inf), np.full(shape, np.inf)
        none = np.full(shape, -2, np.int64)
        return cls(top, none, bottom, none.copy(), np.zeros(n_features))

    def leave_out(self, features: BoolArray) -> None:
        """Make sure that none of these features is chosen."""
        self.top[:, features], self.bottom[:, features] = -np.inf, np.inf
        self.present[features] = 0.0


class Scan(ABC):
    """The search for the best cut of every feature, once a round."""

    margin = 1e-12  # by how much one gain must exceed another, so that rounding decides nothing

    def __init__(self, columns: FeatureColumns, pool: Team, align: int = 1) -> None:
        self.n_features, self.n_rows = columns.n_features, columns.n_rows
        self._columns, self._pool = columns, pool
        self.abstains = np.zeros(self.n_features, bool)
        self.gains = Gains.empty(self.n_features)
        # More blocks than threads, so that a thread with easy features takes more of them. Kernels
        # that take several features at a time have blocks of a multiple of these.
        blocks = ranges(-(-self.n_features // align), 1 if pool.threads == 1 else 2 * pool.threads)
        self.blocks = [(align * a, min(align * b, self.n_features)) for a, b in blocks]

    def part_callback(self, pairs: Weighted) -> Callable[[int], None] | None:
        """What to do with each part of the rows as soon as its potentials are known, if anything.

        Threads then need not wait for each other between the update of the pairs and the scan.
        """
        return None

    @abstractmethod
    def scan(self, pairs: Any, earlier: Cuts) -> FloatArray:
        """Update ``gains``; return the gains of cuts chosen in earlier rounds."""

    @abstractmethod
    def h(self, feature: int, cut: int, default: int) -> Any:
        """The weak ranking of a cut over the rows."""

    @abstractmethod
    def threshold(self, feature: int, cut: int) -> float:
        """The value that rows with h = 1 exceed."""

    def present_cut(self, feature: int) -> int:
        """The cut with h = 1 for every row that has the feature."""
        return -1

    @abstractmethod
    def empty_cut(self, feature: int) -> int:
        """The cut with h = 0 for every row that has the feature."""

    def _each_feature(self, function: Callable[[int], None]) -> None:
        def block(bounds: tuple[int, int]) -> None:
            for feature in range(*bounds):
                function(feature)

        self._pool.map(block, self.blocks)


def concatenate(pieces: list[Any]) -> tuple[IntArray, Any]:
    """Where each piece starts, and all in one array; frees each piece when it is copied."""
    ptr = pointers([len(piece) for piece in pieces])
    out = np.empty(int(ptr[-1]), pieces[0].dtype)
    for i in range(len(pieces)):
        out[ptr[i] : ptr[i + 1]] = pieces[i]
        pieces[i] = pieces[i][:0].copy()
    return ptr, out


class Candidate(NamedTuple):
    """A weak ranking that a scan found; its gain has the sign of its weight."""

    feature: int
    cut: int
    default: int
    gain: float


class Allowed(NamedTuple):
    """Which cuts may be used."""

    direction: Any  # (n_features,) int8: +1 / -1 where only this sign may be used, 0 where both may
    defaults: BoolArray  # (2,) which defaults may be used
    upward: bool  # whether "has the feature" may count upward only, too


class Directions:
    """The choice of the best cut under the paper's .cum constraint and its relatives.

    ``True``: a weak ranking may be chosen only if its cumulative weight stays positive, so that
    every feature counts upward. ``"signed"``: the first threshold of a feature that is chosen
    fixes the direction in which the feature counts; its weak rankings keep cumulative weights of
    that sign. What "has a value at all" adds is a separate contribution, without a direction.
    ``False``: no constraint.
    """

    def __init__(self, cumulative: Any, default: Any, n_features: int) -> None:
        self._kind, upward = cumulative, cumulative is True
        direction = np.full(n_features, int(upward), np.int8)
        # A real default starts from 0 and 1; another given value is number 0.
        defaults = DEFAULTS.get(default, DEFAULTS["learned" if default == "real" else 0])
        self.allowed = Allowed(direction, np.array(defaults), upward)
        self._cuts, self._weight = np.zeros((3, 0), np.int64), np.zeros(0)
        self._index: dict[tuple[int, int, int], int] = {}

    @property
    def earlier(self) -> Cuts:
        """The cuts chosen so far, of which part of the weight may be taken back."""
        return Cuts(*self._cuts)

    def best_gain(self, scan: Scan, pairs: Weighted) -> float:
        """The largest absolute gain of a cut that may be used."""
        from rankwright.rankers.boosting._kernels.splitting import pick_cut

        margin = scan.margin * pairs.total
        return float(abs(pick_cut(scan.gains, scan.abstains, self.allowed, margin)[0]))

    def choose(
        self,
        scan: Scan,
        pairs: Weighted,
        earlier_gain: FloatArray,
        alpha: Callable[[Candidate], float],
    ) -> Candidate | None:
        """The best candidate allowed, or None where no ranking has any edge."""
        from rankwright.rankers.boosting._kernels.splitting import pick_cut

        margin = scan.margin * pairs.total
        gain, feature, kind, default = pick_cut(scan.gains, scan.abstains, self.allowed, margin)
        best = None
        if feature >= 0:
            cut = (
                scan.gains.top_cut[default, feature],
                scan.gains.bottom_cut[default, feature],
                scan.present_cut(feature),
                scan.empty_cut(feature),
            )[kind]
            best = Candidate(int(feature), int(cut), int(default), float(gain))
        return self._step_back(earlier_gain, abs(gain) + margin, alpha) or best

    def candidates(self, scan: Scan) -> list[Candidate]:
        """The best cut of every feature in each direction that it may have."""
        gains, candidates = scan.gains, []
        for feature in range(scan.n_features):
            for default in np.flatnonzero(self.allowed.defaults).tolist():
                for best, cuts, sign in (
                    (gains.top, gains.top_cut, 1),
                    (gains.bottom, gains.bottom_cut, -1),
                ):
                    gain, cut = float(best[default, feature]), int(cuts[default, feature])
                    wrong_way = sign * self.allowed.direction[feature] < 0
                    useless = default and not scan.abstains[feature]
                    if cut >= 0 and sign * gain > 0 and not wrong_way and not useless:
                        candidates.append(Candidate(feature, cut, default, gain))
        return candidates

    def _step_back(
        self, gain: FloatArray, least: float, alpha: Callable[[Candidate], float]
    ) -> Candidate | None:
        """The best earlier ranking to take weight from without turning its sign, if any exceeds
        ``least``."""
        better = np.flatnonzero((np.abs(gain) > least) & (gain * self._weight < 0))
        for i in better[np.argsort(-np.abs(gain[better]), kind="stable")].tolist():
            feature, cut, default = self._cuts[:, i].tolist()
            candidate = Candidate(feature, cut, default, float(gain[i]))
            if abs(alpha(candidate)) < abs(self._weight[i]):
                return candidate
        return None

    def record(self, scan: Scan, chosen: Candidate, alpha: float) -> None:
        """Remember what was chosen."""
        feature, cut = chosen[:2]
        if self._kind is False:
            return
        if self._kind == "signed":
            if cut in (scan.present_cut(feature), scan.empty_cut(feature)):
                return
            if self.allowed.direction[feature] == 0:
                self.allowed.direction[feature] = 1 if alpha > 0 else -1
        i = self._index.setdefault(chosen[:3], len(self._index))
        if i == len(self._weight):
            self._cuts = np.concatenate([self._cuts, np.array([chosen[:3]]).T], axis=1)
            self._weight = np.concatenate([self._weight, [0.0]])
        self._weight[i] += alpha


class Bins(NamedTuple):
    """Features as codes of bins; cut c has h = 1 for the codes above c."""

    codes: NDArray[np.uint32]  # (n_blocks, n_rows) as in BinnedRows; may be empty
    n_cuts: IntArray  # (n_features,)
    abstains: BoolArray  # (n_features,) whether any row lacks the feature


def put_codes(codes: NDArray[np.uint8], feature: int, words: NDArray[np.uint32]) -> None:
    """Write the codes of one feature into its byte of the words (n_blocks, n_rows), which is 0."""
    words[feature // 4] |= codes.astype(np.uint32) << np.uint32(8 * (feature % 4))


def binary_ranking(codes: NDArray[Any], feature: int, cut: int, zero: bool) -> Binary:
    """Which rows are above a cut; ``zero``: rows that lack the feature are not."""
    from rankwright.rankers.boosting._kernels.splitting import above_cut

    h = np.empty(codes.shape[1], np.uint8)
    above_cut(codes[feature // 4], 8 * (feature % 4), cut, 255 if zero else 256, h)
    return h


class BinnedScan(Scan):
    """At most 255 bins a feature, a byte per value."""

    def __init__(self, columns: FeatureColumns, pool: Team, parts: Parts | None = None) -> None:
        super().__init__(columns, pool, align=4)
        codes = np.zeros((-(-self.n_features // 4), self.n_rows), np.uint32)
        self.bins = Bins(codes, np.zeros(self.n_features, np.int64), self.abstains)
        self._edges: list[FloatArray] = [np.zeros(0)] * self.n_features
        self._parts = parts or [(0, self.n_rows)]
        self._part_sums = np.zeros((len(self._parts), 4 * len(codes), 256), np.int64)
        self._units = np.zeros(self.n_rows, np.int64)
        self._sums = np.zeros((self.n_features, 256))
        self._summed = False
        self._each_feature(self._read)

    def _read(self, feature: int) -> None:
        from rankwright.rankers.boosting._kernels.binning import write_codes

        column = self._columns.read(feature, stable=False).explicit(self.n_rows)
        codes = np.full(self.n_rows, 255, np.uint8)
        self.bins.n_cuts[feature] = write_codes(column.rows, column.starts, codes)
        put_codes(codes, feature, self.bins.codes)
        self.abstains[feature] = column.abstains
        lows = column.values[column.starts][::-1]
        self._edges[feature] = np.concatenate([lows, column.values[:1]])

    def packed(self) -> BinnedRows:
        """The codes as trees read them."""
        none = np.zeros(self.n_features, np.uint8)
        return BinnedRows(self.bins.codes, self.bins.n_cuts + 1, none, none.astype(np.int8))

    def part_callback(self, pairs: Weighted) -> Callable[[int], None] | None:
        if len(self._parts) < 2 * self._pool.threads:
            return None  # there is more to share among threads by features
        from rankwright.rankers.boosting._kernels.splitting import sum_part

        self._summed = True
        codes, units, sums, parts = self.bins.codes, self._units, self._part_sums, self._parts

        def add_up(part: int) -> None:
            scale = UNIT / pairs.bound
            sum_part(codes, pairs.potential, scale, *parts[part], units, sums[part])

        return add_up

    def scan(self, pairs: Weighted, earlier: Cuts) -> FloatArray:
        from rankwright.rankers.boosting._kernels.splitting import round_rows, scan_bins, sum_bins

        summed, self._summed = self._summed, False
        if not summed:  # potentials as integers: their sums are the same in any order
            round_part = partial(round_rows, pairs.potential, UNIT / pairs.bound)
            self._pool.map(lambda rows: round_part(*rows, self._units), self._parts)

        def block(features: tuple[int, int]) -> None:
            if not summed:
                for rows, sums in zip(self._parts, self._part_sums, strict=True):
                    sum_bins(self.bins.codes, self._units, *rows, *features, sums)
            limits = 0.1 * self.margin * pairs.total, pairs.bound / UNIT
            scan_bins(
                self._part_sums, self.bins, pairs.whole, *features, limits, self._sums, self.gains
            )

        alone = summed and self.n_features < 512  # done before another thread has woken up
        self._pool.map(block, [(0, self.n_features)] if alone else self.blocks)
        feature, cut, default = earlier
        if not len(feature):
            return np.zeros(0)
        empty = cut == self.bins.n_cuts[feature]
        above = np.where(empty, 0.0, self._sums[feature, np.minimum(cut + 1, 255)])
        return np.asarray(above - default * self.gains.present[feature])

    def h(self, feature: int, cut: int, default: int) -> Binary:
        zero = bool(self.abstains[feature]) and default == 0
        return binary_ranking(self.bins.codes, feature, cut, zero)

    def threshold(self, feature: int, cut: int) -> float:
        return -np.inf if cut < 0 else float(self._edges[feature][cut])

    def empty_cut(self, feature: int) -> int:
        return int(self.bins.n_cuts[feature])


class SortedColumns(NamedTuple):
    """The rows of each feature, values descending."""

    order: Int32Array  # (n_entries,) rows by feature; ~row where a cut may come before the row
    ptr: IntArray  # (n_features + 1,) where the entries of each feature start
    implied: IntArray  # (n_features,) see Column
    implied_cut: BoolArray  # (n_features,) whether a cut may come before the implied group
    absent_ptr: IntArray  # (n_features + 1,)
    absent_rows: Int32Array  # rows that abstain although rows without an entry do not
    abstains: BoolArray  # (n_features,)


class SortedScan(Scan):
    """Every threshold; cut c has h = 1 for the first c entries (an implied group is one entry)."""

    def __init__(self, columns: FeatureColumns, pool: Team) -> None:
        super().__init__(columns, pool, align=2)
        implied = np.full(self.n_features, -1, np.int64)
        implied_cut = np.zeros(self.n_features, bool)
        orders: list[Int32Array] = [np.zeros(0, np.int32)] * self.n_features
        absent: list[Int32Array] = [np.zeros(0, np.int32)] * self.n_features

        def read(feature: int) -> None:
            column = columns.read(feature)
            orders[feature] = np.where(column.starts, ~column.rows, column.rows)
            absent[feature] = column.absent
            implied[feature], implied_cut[feature] = column.implied, column.implied_starts
            self.abstains[feature] = column.abstains

        self._each_feature(read)
        ptr, order = concatenate(orders)
        self._sorted = SortedColumns(
            order, ptr, implied, implied_cut, *concatenate(absent), self.abstains
        )
        self._marks = np.zeros((self.n_features, self.n_rows // 128 + 1, 3))

    def scan(self, pairs: Weighted, earlier: Cuts) -> FloatArray:
        from rankwright.rankers.boosting._kernels import sorted as _kernels

        potential, whole = pairs.potential, pairs.whole
        tolerance = 0.1 * self.margin * pairs.total

        def block(features: tuple[int, int]) -> None:
            _kernels.scan_sorted(
                self._sorted, potential, whole, *features, tolerance, self._marks, self.gains
            )

        self._pool.map(block, self.blocks)
        feature, cut, default = earlier
        above = np.zeros(len(feature))
        _kernels.sums_above(self._sorted, potential, whole, self._marks, feature, cut, above)
        return np.asarray(above - default * self.gains.present[feature])

    def _rows(self, feature: int) -> Int32Array:
        marked = self._sorted.order[self._sorted.ptr[feature] : self._sorted.ptr[feature + 1]]
        return np.asarray(marked ^ (marked >> 31))

    def h(self, feature: int, cut: int, default: int) -> Binary:
        rows, group = self._rows(feature), self._sorted.implied[feature]
        if 0 <= group < cut:
            h = np.ones(self.n_rows, np.uint8)
            h[rows[cut - 1 :]] = 0
        else:
            h = np.zeros(self.n_rows, np.uint8)
            if group < 0 and default and self.abstains[feature]:
                h[:] = 1
                h[rows] = 0
            h[rows[:cut]] = 1
        absent = slice(*self._sorted.absent_ptr[feature : feature + 2])
        h[self._sorted.absent_rows[absent]] = default
        return h

    def threshold(self, feature: int, cut: int) -> float:
        if cut == self.present_cut(feature):
            return -np.inf
        group = self._sorted.implied[feature]
        if cut == group:
            return 0.0
        row = self._rows(feature)[cut - (0 <= group < cut)]
        return float(self._columns.values(feature, [row])[0])

    def present_cut(self, feature: int) -> int:
        entries = self._sorted.ptr[feature + 1] - self._sorted.ptr[feature]
        return int(entries + (self._sorted.implied[feature] >= 0))

    def empty_cut(self, feature: int) -> int:
        return 0


class EntryScan(Scan):
    """Features that most rows lack: a bin per value, and only values that are present are read.

    Cut c has h = 1 for the c highest bins of the feature.
    """

    def __init__(self, columns: FeatureColumns, pool: Team) -> None:
        super().__init__(columns, pool)
        self._bins = SparseBins.read(columns)
        self.abstains = self._bins.abstains
        self._sums = np.zeros(self._bins.bin_ptr[-1])

    def scan(self, pairs: Weighted, earlier: Cuts) -> FloatArray:
        from rankwright.rankers.boosting._kernels.splitting import scan_entries

        tolerance = 0.1 * self.margin * pairs.total
        scan_entries(self._bins, pairs.potential, pairs.whole, tolerance, self._sums, self.gains)
        feature, cut, default = earlier
        if not len(feature):
            return np.zeros(0)
        last = np.maximum(self._bins.bin_ptr[feature] + cut - 1, 0)
        above = np.where(cut > 0, self._sums[last], 0.0)
        return np.asarray(above - default * self.gains.present[feature])

    def h(self, feature: int, cut: int, default: int) -> Binary:
        from rankwright.rankers.boosting._kernels.splitting import write_h

        h = np.empty(self.n_rows, np.uint8)
        write_h(self._bins, feature, cut, default, h)
        return h

    def threshold(self, feature: int, cut: int) -> float:
        if cut == self.present_cut(feature):
            return -np.inf
        return float(self._bins.value[self._bins.bin_ptr[feature] + cut])

    def present_cut(self, feature: int) -> int:
        return int(self._bins.bin_ptr[feature + 1] - self._bins.bin_ptr[feature])

    def empty_cut(self, feature: int) -> int:
        return 0


def threshold_scan(columns: FeatureColumns, pool: Team, parts: Parts | None = None) -> Scan:
    """The search by criterion r: by entries if there are few, else on bins or on sorted rows."""
    n_cells = columns.n_rows * columns.n_features
    if columns.n_entries <= min(FEW_ENTRIES, MOSTLY_MISSING * n_cells):
        return EntryScan(columns, pool)
    if columns.max_bins is None or columns.is_sparse:
        return SortedScan(columns, pool)
    return BinnedScan(columns, pool, parts)
