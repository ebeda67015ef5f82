"""Which combinations of parameters a search tries: all, some at random, or as Optuna proposes."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from numbers import Real
from typing import TYPE_CHECKING, Any, TypeAlias

from sklearn.model_selection import ParameterGrid, ParameterSampler
from sklearn.utils import check_random_state

from rankwright._typing import FloatArray, RandomState
from rankwright.exceptions import ParameterError

if TYPE_CHECKING:
    import optuna

Params = dict[str, Any]
# What a search tries: {name: values, a Range or a distribution of SciPy}, or several of these.
Space: TypeAlias = Mapping[str, Any] | Sequence[Mapping[str, Any]]


@dataclass(frozen=True)
class Range:
    """Range of numbers to search; on a log scale if both ends are above 0 and 10 times apart.

    Two integers are a range of integers.

    >>> Range(0.001, 10.0).rvs(random_state=0)
    0.156...
    >>> Range(2, 5).rvs(random_state=0)
    4
    """

    low: float
    high: float

    def __post_init__(self) -> None:
        if not (math.isfinite(self.low) and math.isfinite(self.high) and self.low < self.high):
            raise ParameterError(f"Range({self.low}, {self.high}): low must be less than high.")

    @property
    def is_integer(self) -> bool:
        return isinstance(self.low, int) and isinstance(self.high, int)

    @property
    def log(self) -> bool:
        return self.low > 0 and self.high >= 10 * self.low

    def rvs(self, random_state: RandomState = None) -> float:
        """A number at random, as the distributions of SciPy draw one."""
        share = check_random_state(random_state).random_sample()
        low, high = self.low, self.high + self.is_integer
        value = low * (high / low) ** share if self.log else low + (high - low) * share
        return int(value) if self.is_integer else float(value)


def distinct_points(space: Space, n_iter: int, seed: RandomState) -> list[Params]:
    """Different combinations drawn at random: ``n_iter``, or all if there are no more.

    scikit-learn draws with replacement as soon as one parameter has a distribution, so that a
    distribution of few values gives the same combination several times.
    """
    spaces = [space] if isinstance(space, Mapping) else space
    listed = not any(hasattr(values, "rvs") for one in spaces for values in one.values())
    if listed:
        grid = list({_key(params): params for params in ParameterGrid(space)}.values())
        if n_iter >= len(grid):
            return grid
        order = check_random_state(seed).permutation(len(grid))
        return [grid[k] for k in order[:n_iter]]
    drawn: dict[str, Params] = {}
    for params in ParameterSampler(space, 50 * n_iter, random_state=seed):
        drawn.setdefault(_key(params), params)
        if len(drawn) == n_iter:
            break
    return list(drawn.values())


def propose(
    space: Mapping[str, Any], n_iter: int, seed: int | None, evaluate: Callable[[Params], float]
) -> None:
    """Evaluate ``n_iter`` different combinations that Optuna's TPE proposes, higher is better."""
    try:
        import optuna
    except ImportError:
        raise ParameterError(
            "the search 'optuna' needs Optuna: pip install 'rankwright[tune]'."
        ) from None
    if not isinstance(space, Mapping):
        raise ParameterError("the search 'optuna' takes one dict of parameters, not a list.")
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    study = optuna.create_study(direction="maximize", sampler=optuna.samplers.TPESampler(seed=seed))
    known: dict[str, float] = {}
    for _ in range(20 * n_iter):
        trial = study.ask()
        params = {name: _suggest(trial, name, values) for name, values in space.items()}
        key = _key(params)
        if key not in known:
            known[key] = evaluate(params)
        state = optuna.trial.TrialState.FAIL if math.isnan(known[key]) else None
        study.tell(trial, None if state else known[key], state=state)
        if len(known) == n_iter:
            return


def _suggest(trial: optuna.Trial, name: str, values: FloatArray) -> Any:
    if isinstance(values, Range):
        suggest = trial.suggest_int if values.is_integer else trial.suggest_float
        return suggest(name, values.low, values.high, log=values.log)
    if hasattr(values, "rvs"):
        raise ParameterError(f"{name}: the search 'optuna' takes a list or a Range of values.")
    return values[trial.suggest_categorical(name, list(range(len(values))))]


def _key(params: Params) -> str:
    return repr(sorted(params.items(), key=lambda item: item[0]))


def chosen_ends(space: Space, best: Params) -> tuple[str, ...]:
    """Sentences about parameters whose best value is the first or last of three or more numbers.

    >>> chosen_ends({"C": [0.1, 1, 10], "loss": ["a", "b"]}, {"C": 10, "loss": "a"})
    ('C=10 is the largest value tried: larger ones may be better.',)
    """
    notes = []
    for one in [space] if isinstance(space, Mapping) else space:
        for name, values in one.items():
            numbers = _numbers(values)
            value = best.get(name)
            if len(numbers) >= 3 and value in (numbers[0], numbers[-1]):
                side, more = (
                    ("smallest", "smaller") if value == numbers[0] else ("largest", "larger")
                )
                short = f"{name.rpartition('__')[2]}={value:g}"
                notes.append(f"{short} is the {side} value tried: {more} ones may be better.")
    return tuple(dict.fromkeys(notes))


def _numbers(values: FloatArray) -> Sequence[float]:
    if hasattr(values, "rvs") or not all(
        isinstance(v, Real) and not isinstance(v, bool) for v in values
    ):
        return []
    return sorted(set(values))
