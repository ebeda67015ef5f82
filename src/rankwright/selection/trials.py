"""What was tried, how it went, and the best of it."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from rankwright.exceptions import RankwrightError
from rankwright.metrics.measure import Measure
from rankwright.metrics.tables import Cell, Table

__all__ = ["Trial", "Trials", "show_progress"]

Progress = Callable[[int, int, "Trial"], None]


@dataclass(frozen=True)
class Trial:
    """One combination of parameters.

    Attributes
    ----------
    params : dict
    value : float
        The measure, the mean over folds; NaN when training failed.
    values : tuple of float, fold by fold
    seconds : float, training and evaluation
    error : str, why it failed; empty otherwise
    """

    params: dict[str, Any]
    value: float
    values: tuple[float, ...] = ()
    seconds: float = 0.0
    error: str = ""


@dataclass(frozen=True, repr=False)
class Trials:
    """All trials of a search, in the order tried; the measure says whether high or low is good.

    Examples
    --------
    >>> print(Trials("NDCG@10", (Trial({"C": 1}, 0.25, seconds=0.5), Trial({"C": 9}, 0.5))))
    C  NDCG@10  seconds
    9  *0.5000     0.00
    1   0.2500     0.50
    """

    measure: str
    trials: tuple[Trial, ...] = field(default=())

    @property
    def best(self) -> Trial:
        """The best value, the lowest of a loss; of equal ones the first tried."""
        worked = [trial for trial in self.trials if not math.isnan(trial.value)]
        if not worked:
            first = self.trials[0].error if self.trials else "there was none"
            raise RankwrightError(f"none of {len(self.trials)} trials worked: {first}")
        return max(worked, key=self._goodness)

    def _goodness(self, trial: Trial) -> float:
        return Measure.parse(self.measure).sign * trial.value

    def table(self) -> Table:
        """The trials from the best to the worst, with a column for each parameter."""
        names = list(dict.fromkeys(name for trial in self.trials for name in trial.params))
        order = sorted(
            self.trials,
            key=lambda trial: math.inf if math.isnan(trial.value) else -self._goodness(trial),
        )
        rows = []
        for place, trial in enumerate(order):
            cells = [Cell(_text(trial.params.get(name, ""))) for name in names]
            failed = math.isnan(trial.value)
            value = trial.error.split(":")[0] if failed else f"{trial.value:.4f}"
            cells += [Cell(value, best=place == 0 and not failed), Cell(f"{trial.seconds:.2f}")]
            rows.append(tuple(cells))
        return Table((*names, self.measure, "seconds"), tuple(rows))

    def __str__(self) -> str:
        return self.table().to_text()

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return self.table().to_html()


def show_progress(progress: bool | Progress, measure: str) -> Progress:
    """A function (done, total, trial) that reports: nothing, a line on stderr, or your own."""
    if callable(progress):
        return progress
    if not progress:
        return lambda done, total, trial: None
    best, sign = math.nan, Measure.parse(measure).sign

    def report(done: int, total: int, trial: Trial) -> None:
        import sys

        nonlocal best
        if math.isnan(best) or sign * trial.value > sign * best:
            best = trial.value
        words = " ".join(f"{name}={_text(value)}" for name, value in trial.params.items())
        found = trial.error or f"{trial.value:.4f}"
        print(f"[{done}/{total}] {words}: {found} (best {best:.4f})", file=sys.stderr, flush=True)

    return report


def _text(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)
