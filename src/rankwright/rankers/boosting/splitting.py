"""The best cut of every feature, going down through its values."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from rankwright._typing import FloatArray, IntArray
from rankwright.parallel import Team, ranges
from rankwright.rankers.boosting.binning import Columns
from rankwright.rankers.boosting.pair_weights import Flags, PairDistribution, pointers

SMALL = 200_000  # cells of X below which threads cost more than they save
Asked = tuple[IntArray, IntArray, IntArray]  # features, cuts, defaults
Parts = list[tuple[int, int]]  # ranges of rows


class Weighted(Protocol):
    """What a scan over potentials needs to know: ``whole`` is their sum, ``total`` their scale."""

    potential: FloatArray
    total: float
    whole: float


class Gains:
    """Per feature: the best gain upwards and downwards, for either default, and their cuts."""

    def __init__(self, n_features: int) -> None:
        self.top, self.bottom = np.full((2, n_features), -np.inf), np.full((2, n_features), np.inf)
        self.top_cut = np.full((2, n_features), -2, np.int64)
        self.bottom_cut = np.full((2, n_features), -2, np.int64)
        self.listed = np.zeros(n_features)

    @property
    def arrays(self) -> tuple[Any, ...]:
        return self.top, self.top_cut, self.bottom, self.bottom_cut, self.listed


class Scan(ABC):
    """What boosting asks of the features each round."""

    n_features: int
    abstains: NDArray[np.bool_]
    margin = 1e-12  # by how much one gain must exceed another, so that rounding decides nothing

    def __init__(self, columns: Columns, team: Team) -> None:
        self.n_features, self.n_rows = columns.n_features, columns.n_rows
        self._columns, self._team = columns, team
        self.abstains = np.zeros(self.n_features, bool)
        self.gains = Gains(self.n_features)
        # More blocks than threads, so that a thread with easy features takes more of them.
        self.blocks = ranges(self.n_features, 1 if team.threads == 1 else 2 * team.threads)

    def begin(self, pairs: Weighted) -> Callable[[int], None] | None:
        """What to do with each part of the rows as soon as its potentials are known, if anything.

        Called before the potentials change, so that threads need not meet between the two.
        """
        return None

    @abstractmethod
    def scan(self, pairs: Any, asked: Asked) -> FloatArray:
        """Update ``gains``; return the gains of the cuts that were asked for."""

    @abstractmethod
    def hit(self, feature: int, cut: int, default: int) -> Flags:
        """Which rows a cut hits."""

    @abstractmethod
    def threshold(self, feature: int, cut: int) -> float:
        """The value that rows must exceed to be hit."""

    @abstractmethod
    def listing_cut(self, feature: int) -> int:
        """The cut that hits every row that has the feature."""

    @abstractmethod
    def empty_cut(self, feature: int) -> int:
        """The cut that hits none of them."""

    def _each_feature(self, function: Any) -> None:
        def block(bounds: tuple[int, int]) -> None:
            for feature in range(*bounds):
                function(feature)

        self._team.map(block, self.blocks)


def team_for(X: Any) -> Team:
    """One thread or all of them, whichever is faster on so many cells."""
    return Team(1 if X.shape[0] * X.shape[1] < SMALL else None)


def take_all(pieces: list[Any]) -> tuple[IntArray, Any]:
    """Where each piece starts, and all in one array; each is let go as soon as it is copied."""
    ptr = pointers([len(piece) for piece in pieces])
    out = np.empty(int(ptr[-1]), pieces[0].dtype)
    for i in range(len(pieces)):
        out[ptr[i] : ptr[i + 1]] = pieces[i]
        pieces[i] = pieces[i][:0].copy()
    return ptr, out


DEFAULTS = {"learned": (True, True), 0: (True, False), 1: (False, True)}


class Candidate(NamedTuple):
    """A weak ranking a scan found; its gain has the sign of its weight."""

    feature: int
    cut: int
    default: int
    gain: float


class Directions:
    """The paper's .cum constraint and its kin.

    ``True``: a weak ranking may be chosen only if its cumulative weight stays positive, so that
    every feature counts upwards. ``"signed"``: the first threshold of a feature that is chosen
    fixes the direction in which the feature counts; its weak rankings keep cumulative weights of
    that sign. What "has a value at all" adds is a contribution of its own and not bound by the
    direction. ``False``: no constraint.
    """

    def __init__(self, cumulative: Any, default: Any, n_features: int) -> None:
        self._kind = cumulative
        self._direction = np.full(n_features, 1 if cumulative is True else 0, np.int8)
        self._defaults = np.array(DEFAULTS[default])
        self._place: dict[tuple[int, int, int], int] = {}
        self._keys = np.zeros((3, 16), np.int64)
        self._weight = np.zeros(16)

    @property
    def asked(self) -> Asked:
        """The rankings chosen so far, of which a part of the weight may be taken back."""
        feature, cut, default = self._keys[:, : len(self._place)]
        return feature, cut, default

    def choose(
        self,
        scan: Scan,
        pairs: PairDistribution,
        asked_gain: Any,
        alpha: Callable[[Candidate], float],
    ) -> Candidate | None:
        """The best candidate allowed, or None where no ranking has any edge."""
        from rankwright.rankers.boosting._kernels import cuts as _kernels

        margin = scan.margin * pairs.total
        gain, feature, kind, default = _kernels.pick_cut(
            scan.gains.top, scan.gains.bottom, scan.gains.listed, scan.abstains, self._direction,
            self._defaults, self._kind is True, margin,
        )  # fmt: skip
        best = None
        if feature >= 0:
            cut = (
                scan.gains.top_cut[default, feature],
                scan.gains.bottom_cut[default, feature],
                scan.listing_cut(feature),
                scan.empty_cut(feature),
            )[kind]
            best = Candidate(int(feature), int(cut), int(default), float(gain))
        return self._step_back(asked_gain, abs(gain) + margin, alpha) or best

    def _step_back(
        self, asked_gain: Any, least: float, alpha: Callable[[Candidate], float]
    ) -> Candidate | None:
        """The best ranking against its direction that keeps its sign, if better than ``least``."""
        n = len(asked_gain)
        weight = self._weight[:n]
        better = np.flatnonzero((np.abs(asked_gain) > least) & (asked_gain * weight < 0))
        for place in better[np.argsort(-np.abs(asked_gain[better]), kind="stable")]:
            feature, cut, default = self._keys[:, place].tolist()
            candidate = Candidate(feature, cut, default, float(asked_gain[place]))
            if abs(alpha(candidate)) < abs(weight[place]):
                return candidate
        return None

    def record(self, scan: Scan, chosen: Candidate, alpha: float) -> None:
        """Remember what was chosen."""
        if self._kind is False:
            return
        feature, cut, default = chosen[:3]
        whole = cut in (scan.listing_cut(feature), scan.empty_cut(feature))
        if self._kind == "signed":
            if whole:
                return
            if self._direction[feature] == 0:
                self._direction[feature] = 1 if alpha > 0 else -1
        place = self._place.setdefault((feature, cut, default), len(self._place))
        if place == len(self._weight):
            self._weight = np.concatenate([self._weight, np.zeros(place)])
            self._keys = np.concatenate([self._keys, np.zeros((3, place), np.int64)], axis=1)
        self._keys[:, place] = feature, cut, default
        self._weight[place] += alpha


class BinnedScan(Scan):
    """At most 255 bins a feature, a byte per value; cut c hits the bins above bin c."""

    def __init__(self, columns: Columns, team: Team, parts: Parts | None = None) -> None:
        super().__init__(columns, team)
        self.codes = np.full((self.n_features, self.n_rows), 255, np.uint8)
        self.n_cuts = np.zeros(self.n_features, np.int64)
        self._edges: list[FloatArray] = [np.zeros(0)] * self.n_features
        self._parts = parts or [(0, self.n_rows)]
        self._part_sums = np.zeros((len(self._parts), self.n_features, 256))
        self._sums = np.zeros((self.n_features, 256))
        self._summed = False
        # Blocks of whole fours: the kernel takes four columns at a time.
        fours = ranges(-(-self.n_features // 4), len(self.blocks))
        self._fours = [(4 * a, min(4 * b, self.n_features)) for a, b in fours]
        self._each_feature(self._write)

    def _write(self, feature: int) -> None:
        from rankwright.rankers.boosting._kernels.cuts import write_codes

        column = self._columns.read(feature, stable=False).spelled_out(self.n_rows)
        cuts = write_codes(column.rows, column.starts, self.codes[feature])
        self.n_cuts[feature], self.abstains[feature] = cuts, column.abstains
        lows = column.values[column.starts][::-1]
        self._edges[feature] = np.concatenate([lows, column.values[:1]])

    def begin(self, pairs: Weighted) -> Callable[[int], None] | None:
        if len(self._parts) < 2 * self._team.threads:
            return None  # there is more to share among threads by features
        self._summed = True
        return lambda part: self._sum(pairs, part, (0, self.n_features))

    def _sum(self, pairs: Weighted, part: int, features: tuple[int, int]) -> None:
        from rankwright.rankers.boosting._kernels import histogram as _kernels

        rows = self._parts[part]
        _kernels.sum_bins(self.codes, pairs.potential, *rows, *features, self._part_sums[part])

    def scan(self, pairs: Weighted, asked: Asked) -> FloatArray:
        from rankwright.rankers.boosting._kernels import histogram as _kernels

        summed, self._summed = self._summed, False

        def block(features: tuple[int, int]) -> None:
            if not summed:
                for part in range(len(self._parts)):
                    self._sum(pairs, part, features)
            _kernels.scan_bins(
                self._part_sums, pairs.whole, self.n_cuts, self.abstains, *features,
                0.1 * self.margin * pairs.total, self._sums, *self.gains.arrays,
            )  # fmt: skip

        alone = summed and self.n_features < 512  # done before another thread has woken up
        self._team.map(block, [(0, self.n_features)] if alone else self._fours)
        feature, cut, default = asked
        none_hit = cut == self.n_cuts[feature]
        above = np.where(none_hit, 0.0, self._sums[feature, np.minimum(cut + 1, 255)])
        return np.asarray(above - default * self.gains.listed[feature])

    def hit(self, feature: int, cut: int, default: int) -> Flags:
        codes = self.codes[feature]
        hit: Flags = (codes > cut).view(np.uint8)
        if self.abstains[feature] and default == 0:
            hit &= (codes != 255).view(np.uint8)
        return hit

    def threshold(self, feature: int, cut: int) -> float:
        return -np.inf if cut < 0 else float(self._edges[feature][cut])

    def listing_cut(self, feature: int) -> int:
        return -1

    def empty_cut(self, feature: int) -> int:
        return int(self.n_cuts[feature])


class SortedScan(Scan):
    """Rows sorted by each feature; cut c hits the first c of them (an implied group counts one)."""

    def __init__(self, columns: Columns, team: Team) -> None:
        super().__init__(columns, team)
        self._implied = np.full(self.n_features, -1, np.int64)
        self._implied_cut = np.zeros(self.n_features, bool)
        pieces: list[NDArray[np.int32]] = [np.zeros(0, np.int32)] * self.n_features
        absent: list[NDArray[np.int32]] = [np.zeros(0, np.int32)] * self.n_features

        def read(feature: int) -> None:
            column = columns.read(feature)
            pieces[feature] = np.where(column.starts, ~column.rows, column.rows)
            absent[feature] = column.absent
            self._implied[feature] = column.implied
            self._implied_cut[feature] = column.implied_starts
            self.abstains[feature] = column.abstains

        self._each_feature(read)
        self._ptr, self._order = take_all(pieces)
        self._absent_ptr, self._absent = take_all(absent)
        # Blocks of whole pairs: the kernel takes two columns at a time.
        twos = ranges(-(-self.n_features // 2), len(self.blocks))
        self._pairs = [(2 * a, min(2 * b, self.n_features)) for a, b in twos]
        self._marks = np.zeros((self.n_features, self.n_rows // 128 + 1, 3))

    def scan(self, pairs: Weighted, asked: Asked) -> FloatArray:
        from rankwright.rankers.boosting._kernels import sorted as _kernels

        groups = self._implied, self._implied_cut, self._absent_ptr, self._absent
        lists = self._order, self._ptr, *groups
        potential, whole = pairs.potential, pairs.whole

        def block(bounds: tuple[int, int]) -> None:
            _kernels.scan_sorted(
                *lists, potential, whole, self.abstains, *bounds,
                0.1 * self.margin * pairs.total, self._marks, *self.gains.arrays,
            )  # fmt: skip

        self._team.map(block, self._pairs)
        feature, cut, default = asked
        above = np.zeros(len(feature))
        _kernels.sums_above(*lists, potential, whole, self._marks, feature, cut, above)
        return np.asarray(above - default * self.gains.listed[feature])

    def _rows(self, feature: int) -> NDArray[np.int32]:
        marked = self._order[self._ptr[feature] : self._ptr[feature + 1]]
        return np.asarray(marked ^ (marked >> 31))

    def hit(self, feature: int, cut: int, default: int) -> Flags:
        rows, group = self._rows(feature), self._implied[feature]
        if 0 <= group < cut:
            hit = np.ones(self.n_rows, np.uint8)
            hit[rows[cut - 1 :]] = 0
        elif group >= 0:
            hit = np.zeros(self.n_rows, np.uint8)
            hit[rows[:cut]] = 1
        elif self.abstains[feature] or cut < len(rows) // 2:
            hit = np.full(self.n_rows, default if self.abstains[feature] else 0, np.uint8)
            if default and self.abstains[feature]:
                hit[rows] = 0
            hit[rows[:cut]] = 1
        else:
            hit = np.ones(self.n_rows, np.uint8)
            hit[rows[cut:]] = 0
        hit[self._absent[self._absent_ptr[feature] : self._absent_ptr[feature + 1]]] = default
        return hit

    def threshold(self, feature: int, cut: int) -> float:
        if cut == self.listing_cut(feature):
            return -np.inf
        group = self._implied[feature]
        if cut == group:
            return 0.0
        row = self._rows(feature)[cut - (0 <= group < cut)]
        return float(self._columns.values(feature, [row])[0])

    def listing_cut(self, feature: int) -> int:
        entries = self._ptr[feature + 1] - self._ptr[feature]
        return int(entries + (self._implied[feature] >= 0))

    def empty_cut(self, feature: int) -> int:
        return 0
