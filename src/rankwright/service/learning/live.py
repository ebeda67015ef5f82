"""A ranker that learns from the log: its state is a function of the log and nothing else."""

from __future__ import annotations

import copy
import inspect
import tempfile
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import accumulate
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

import rankwright
from rankwright._typing import FloatArray
from rankwright.exceptions import ParameterError, RankwrightError, Setting
from rankwright.persist.scorer import SavedScorer
from rankwright.scoring.linear import Linear
from rankwright.service.learning.labels import grades_of, in_order
from rankwright.service.log.entries import Event, LoggedFeedback
from rankwright.service.models import LIVE, DeployedModel, served_scorer

LEARNERS = (
    "PRank",
    "OAPBPM",
    "OAPBagging",
    "OAPVoting",
    "BayesianPRank",
    "OnlineKeepRank",
    "WidrowHoff",
)
CURVE_POINTS = 512


class LearningPlan(msgspec.Struct, frozen=True):
    """What learns, and from what. A snapshot is used again only with the same plan."""

    ranker: str
    parameters: dict[str, Any] = {}
    grades: tuple[float, ...] = (0.0, 1.0, 2.0, 3.0, 4.0, 5.0)
    labels: str = "grades"

    def make(self) -> Any:
        """A ranker that has not learned anything."""
        if self.ranker not in LEARNERS:
            raise ParameterError(
                Setting("learn", self.ranker),
                ": it cannot learn while serving.",
                fix=f"Use one of {', '.join(LEARNERS)}.",
            )
        seeded = "random_state" in inspect.signature(getattr(rankwright, self.ranker)).parameters
        first = {"random_state": 0} if seeded else {}
        return rankwright.make_ranker(self.ranker, {**first, **self.parameters})


class LearningProgress(msgspec.Struct):
    """What a snapshot holds beside the ranker."""

    plan: LearningPlan
    last_seq: int = 0
    n_learned: int = 0  # entries that taught something
    n_skipped: int = 0  # entries without grades, or that the ranker cannot learn from
    n_taken_back: int = 0  # judgments that were undone or replaced, and so are not learned
    n_examples: int = 0
    loss: float = 0.0  # sum of |grade - prediction|, each predicted before it was learned
    median_loss: float = 0.0  # the same for always predicting the median of the grades before
    n_graded: list[int] = []  # examples of each grade
    names: list[str] | None = None
    curve: list[tuple[int, float, float]] = []  # examples so far, mean losses so far
    step: int = 1  # examples between two points of the curve


@dataclass
class LiveRanker:
    """An online ranker and how well it predicted each grade just before learning it.

    Parameters
    ----------
    plan : what learns

    Examples
    --------
    >>> live = LiveRanker(LearningPlan("PRank", grades=(0, 1)))
    >>> event = Event("q", "m", ["a", "b"], b"", np.array([[1.0], [-1.0]]).tobytes())
    >>> for seq in range(1, 4):
    ...     live.apply(seq, LoggedFeedback(str(seq), grades={"a": 1, "b": 0}), event)
    >>> live.progress.n_examples, live.rank_loss < 1
    (6, True)
    >>> again = LiveRanker.restore(live.snapshot())
    >>> bool((again.ranker.coef_ == live.ranker.coef_).all())
    True
    """

    plan: LearningPlan
    file: bytes = b""  # of the ranker in a snapshot, until it is first needed
    progress: LearningProgress = field(init=False)

    def __post_init__(self) -> None:
        self.progress = LearningProgress(self.plan, n_graded=[0] * len(self.plan.grades))

    @cached_property
    def ranker(self) -> Any:
        """The online ranker; loading it imports scikit-learn, which takes longer than the rest."""
        file, self.file = self.file, b""
        if not file:
            return self.plan.make()
        with _as_path(file) as path:
            return rankwright.load(path)

    @property
    def started(self) -> bool:
        """Whether the ranker has learned from at least one example."""
        return self.progress.n_examples > 0

    @property
    def rank_loss(self) -> float:
        """The mean distance between grades and predictions, test-then-train."""
        return self.progress.loss / max(self.progress.n_examples, 1)

    def apply(self, seq: int, feedback: LoggedFeedback, event: Event | None) -> None:
        """Learn from one entry of the log; what cannot be learned from is counted."""
        state = self.progress
        state.last_seq = seq
        rows, grades = self._examples(feedback, event)
        if len(grades) == 0:
            state.n_skipped += 1
            return
        try:
            predicted = self._learn(rows, grades)
        except RankwrightError:
            state.n_skipped += 1
            return
        state.n_learned += 1
        for grade, guess in zip(grades.tolist(), predicted.tolist(), strict=True):
            state.n_examples += 1
            state.loss += abs(grade - guess)
            state.median_loss += abs(grade - _median(self.plan.grades, state.n_graded))
            state.n_graded[self.plan.grades.index(grade)] += 1
            if state.n_examples % state.step == 0:
                self._add_point()

    def pass_over(self, seq: int, taken_back: bool = False) -> None:
        """An entry of the log that teaches nothing."""
        self.progress.last_seq = seq
        self.progress.n_taken_back += taken_back

    def copy(self) -> LiveRanker:
        """A ranker that continues with the same bits, apart from this one."""
        twin, state = LiveRanker(self.plan, self.file), self.progress
        lists = {"curve": list(state.curve), "n_graded": list(state.n_graded)}
        twin.progress = msgspec.structs.replace(state, **lists)
        if "ranker" in vars(self):
            twin.ranker = copy.deepcopy(self.ranker)
        return twin

    def snapshot(self) -> bytes:
        """The whole state; :meth:`restore` gives a ranker that continues with the same bits."""
        file = self.file
        if self.started and not file:
            with _as_path(b"") as path:
                rankwright.save(self.ranker, path)
                file = path.read_bytes()
        return msgspec.msgpack.encode((self.progress, file))

    @classmethod
    def restore(cls, content: bytes) -> LiveRanker:
        """The state that :meth:`snapshot` returned."""
        progress, file = msgspec.msgpack.decode(content, type=tuple[LearningProgress, bytes])
        live = cls(progress.plan, file)
        live.progress = progress
        return live

    def served(
        self, n_features: int | None = None, names: Sequence[str] | None = None
    ) -> DeployedModel:
        """The ranker as it is now, for requests; before the first example all scores are 0."""
        names = self.progress.names if self.started else names
        named = None if names is None else tuple(names)
        version, about = f"{LIVE}-{self.progress.last_seq}", {}
        if self.started:
            saved = replace(self._scorer(), feature_names=named)
            about = {"RankLoss": self.rank_loss, "examples": float(self.progress.n_examples)}
        elif n_features is None:
            return DeployedModel(version, LIVE, self.plan.ranker, "rank", "live", None)
        else:
            saved = SavedScorer(self.plan.ranker, Linear(np.zeros(n_features)), (), named)
        return served_scorer(saved, version, LIVE, "live", measures=about)

    def _scorer(self) -> SavedScorer:
        """A copy of what scores; from the file where the ranker is not loaded yet."""
        if self.file:
            with _as_path(self.file) as path:
                return rankwright.load_scorer(path)
        from rankwright.persist.classes import serve

        parts = serve(self.ranker)
        assert parts is not None
        transforms, scorer, allow_nan = copy.deepcopy(parts)
        return SavedScorer(self.plan.ranker, scorer, tuple(transforms), None, allow_nan)

    def _examples(
        self, feedback: LoggedFeedback, event: Event | None
    ) -> tuple[FloatArray, FloatArray]:
        none = np.empty((0, 0)), np.empty(0)
        if event is None or not event.features:
            return none
        graded = grades_of(feedback, event.ids, self.plan.labels)
        graded = {item: grade for item, grade in graded.items() if grade in self.plan.grades}
        row = {item: i for i, item in enumerate(event.ids)}
        shown = event.rows()[[row[item] for item in graded]]
        rows = self._in_order(shown, event.names)
        if rows is None or not np.isfinite(rows).all():
            return none
        return np.ascontiguousarray(rows), np.array(list(graded.values()), dtype=np.float64)

    def _in_order(self, rows: FloatArray, names: list[str] | None) -> FloatArray | None:
        """The features in the order of the first example; None if they are others."""
        if not self.started:
            self.progress.names = names
            return rows
        return in_order(rows, names, self.progress.names, self.ranker.n_features_in_)

    def _learn(self, rows: FloatArray, grades: FloatArray) -> FloatArray:
        """Predict the grade of each row, then learn it."""
        classes = None if self.started else self.plan.grades
        if hasattr(self.ranker, "partial_fit_predict"):
            answer: FloatArray = self.ranker.partial_fit_predict(rows, grades, classes)
            return answer
        if self.started:
            predicted = np.asarray(self.ranker.predict(rows), dtype=np.float64)
        else:
            predicted = np.full(len(grades), min(self.plan.grades))
        self.ranker.partial_fit(rows, grades, classes)
        return predicted

    def _add_point(self) -> None:
        state = self.progress
        median = state.median_loss / state.n_examples
        state.curve.append((state.n_examples, self.rank_loss, median))
        if len(state.curve) >= CURVE_POINTS:  # every second one, so that the curve stays short
            state.curve, state.step = state.curve[1::2], 2 * state.step


def _median(grades: tuple[float, ...], counts: list[int]) -> float:
    """The median of the grades given so far; of all grades before the first one.

    >>> _median((0.0, 1.0, 2.0), [2, 1, 1]), _median((0.0, 1.0, 2.0), [0, 0, 0])
    (0.5, 1.0)
    """
    total = sum(counts)
    counts, total = (counts, total) if total else ([1] * len(grades), len(grades))
    ends = list(accumulate(counts))
    low, high = (bisect_right(ends, rank) for rank in ((total - 1) // 2, total // 2))
    return (grades[low] + grades[high]) / 2.0


@contextmanager
def _as_path(content: bytes) -> Iterator[Path]:
    """The path of a file with this content, for as long as it is needed."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "live.rw"
        path.write_bytes(content)
        yield path
