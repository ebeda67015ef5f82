"""When to stop boosting: a measure on queries that were held out."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state

from rankwright._typing import FloatArray
from rankwright.exceptions import ParameterError
from rankwright.feedback.base import Feedback
from rankwright.feedback.grades import Grades
from rankwright.metrics.evaluation import evaluate
from rankwright.metrics.measure import Measure
from rankwright.rankers import schema
from rankwright.scoring.base import Scorer

PATIENCE = 1.0  # seconds before a bar is worth drawing


@contextmanager
def progress_bar(
    title: str, n_steps: int, wanted: bool | None = None
) -> Iterator[Callable[[int, str], None]]:
    """Give a function ``show(step, note)``; it draws only if standard error is a terminal.

    Parameters
    ----------
    wanted : bool or None
        False: never draw. True: draw at once. None: draw when it has taken a second. A bar is
        never drawn into a file or a log.

    Examples
    --------
    >>> with progress_bar("RankBoost", 3) as show:
    ...     show(1, "bound 0.5")
    """
    if wanted is False or not sys.stderr.isatty():
        yield lambda step, note: None
        return
    start = time.monotonic() + (0.0 if wanted else PATIENCE)
    with ExitStack() as stack:
        drawn: list[Callable[[int, str], None]] = []

        def show(step: int, note: str) -> None:
            if not drawn and time.monotonic() >= start:
                drawn.append(_bar(stack, title, n_steps))
            for draw in drawn:
                draw(step, note)

        yield show


def _bar(stack: ExitStack, title: str, n_steps: int) -> Callable[[int, str], None]:
    """A bar that is taken away when the stack closes."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn
    from rich.progress import TimeRemainingColumn as Remaining

    columns: list[Any] = [TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn()]
    columns += [Remaining(), TextColumn("{task.fields[note]}")]
    bar = stack.enter_context(Progress(*columns, console=Console(stderr=True), transient=True))
    task = bar.add_task(title, total=n_steps, note="")
    return lambda step, note: bar.update(task, completed=step, note=note)


def _is_measure(value: Any) -> bool:
    try:
        Measure.parse(value)
    except (ValueError, TypeError, AttributeError):
        return False
    return True


class EarlyStopping(BaseEstimator):  # type: ignore[misc]
    """Keep the rounds up to the best one on held-out queries.

    Parameters
    ----------
    n_iter_no_change : int >= 1, default 20
        Stop when this many rounds in a row were no better than the best one.
    measure : str, default "NDCG@10"
    fraction : float, default 0.2
        The share of the queries that is held out, drawn at random.
    queries : list of query ids, optional
        Hold out these queries instead (say, those of a validation file).
    random_state : int or None, default 0

    Examples
    --------
    >>> from rankwright import RankBoost
    >>> rng = np.random.default_rng(0)
    >>> X, qid = rng.normal(size=(400, 3)), np.repeat(np.arange(40), 10)
    >>> y = (X[:, 0] + rng.normal(size=400) > 1).astype(int)
    >>> model = RankBoost(n_estimators=200, early_stopping=EarlyStopping(n_iter_no_change=10))
    >>> model = model.fit(X, y, qid=qid)
    >>> len(model.alpha_) < len(model.validation_) < 200
    True
    """

    _constraints: ClassVar = {
        "n_iter_no_change": schema.at_least(1),
        "measure": schema.Constraint("the name of a measure", _is_measure),
        "fraction": schema.between(0.01, 0.9),
        "queries": schema.Constraint(
            "None or a list of query ids",
            lambda value: value is None or isinstance(value, list | tuple | np.ndarray),
        ),
        "random_state": schema.a_seed(),
    }

    def __init__(
        self,
        *,
        n_iter_no_change: int = 20,
        measure: str = "NDCG@10",
        fraction: float = 0.2,
        queries: Any = None,
        random_state: Any = 0,
    ) -> None:
        self.n_iter_no_change = n_iter_no_change
        self.measure = measure
        self.fraction = fraction
        self.queries = queries
        self.random_state = random_state

    def hold_out(self, X: Any, feedback: Feedback, owner: str) -> tuple[Grades, HeldOut]:
        """The feedback without the held-out queries, and those."""
        for name, rule in self._constraints.items():
            rule.check("EarlyStopping", name, getattr(self, name))
        if not isinstance(feedback, Grades) or feedback.queries.n_queries < 2:
            raise ParameterError(
                f"{owner}(early_stopping=...): early stopping holds out queries, and there are "
                "none to hold out. It needs grades with a qid of at least two queries."
            )
        out = self._chosen(feedback)
        if not 0 < int(out.sum()) < len(out):
            raise ParameterError(
                "EarlyStopping: some queries must be held out and some must be left to learn from, "
                f"found {int(out.sum())} of {len(out)} held out."
            )
        rows = np.flatnonzero(out[feedback.queries.codes])
        weight = np.where(out, 0.0, feedback.query_weight)
        rest = Grades(
            feedback.y,
            feedback.queries,
            sample_weight=feedback.sample_weight,
            query_weight=weight,
            magnitude=feedback.magnitude,
        )
        codes = feedback.queries.codes[rows]
        return rest, HeldOut(X[rows], feedback.y[rows], codes, Measure.parse(self.measure), self)

    def _chosen(self, feedback: Grades) -> NDArray[np.bool_]:
        ids, n = feedback.queries.ids, feedback.queries.n_queries
        if self.queries is not None:
            wanted = {_plain(query) for query in np.asarray(self.queries).tolist()}
            return np.array([_plain(query) in wanted for query in ids.tolist()])
        rng = np.random.default_rng(check_random_state(self.random_state).randint(2**31 - 1))
        out = np.zeros(n, bool)
        out[rng.permutation(n)[: max(1, round(self.fraction * n))]] = True
        return out


def _plain(query: Any) -> Any:
    return query.item() if isinstance(query, np.generic) else query


class HeldOut:
    """Held-out rows with the scores so far, and the measure after each round."""

    def __init__(
        self, X: Any, y: FloatArray, qid: Any, measure: Measure, stopping: EarlyStopping
    ) -> None:
        self._X, self._y, self._qid = X, y, qid
        self._measure, self._patience = measure, stopping.n_iter_no_change
        self._scores = np.zeros(len(y))
        self.history: list[float] = []
        self.best_round = 0

    def add(self, weak: Scorer) -> bool:
        """Add what one round adds to the scores; whether it is time to stop."""
        self._scores += weak.decision_function(self._X)
        value = evaluate(self._scores, self._y, self._qid, [self._measure])[str(self._measure)]
        value = self._measure.sign * float(value)
        self.history.append(value)
        best = self.history[self.best_round - 1] if self.best_round else -np.inf
        if value > best:
            self.best_round = len(self.history)
        return len(self.history) - self.best_round >= self._patience

    @property
    def values(self) -> FloatArray:
        """The measure after each round."""
        return self._measure.sign * np.array(self.history)
