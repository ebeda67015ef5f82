"""Every public ranker, in its main variants, against every common check."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

from contract.instances import DEFAULTS, INSTANCES
from rankwright.rankers.base import Ranker, rankers
from rankwright.testing.ranker import ranker_checks

CHECKED = [*INSTANCES, *DEFAULTS]


def has_defaults(ranker: Ranker) -> bool:
    """Whether only the seed was chosen, and what has no default."""
    needed = {"random_state", "members"}
    kept = {k: v for k, v in ranker.get_params(deep=False).items() if k not in needed}
    defaults = type(ranker)().get_params(deep=False)
    return all(value == defaults[name] for name, value in kept.items())


def test_every_public_ranker_is_checked_with_its_defaults() -> None:
    assert {type(r) for r in CHECKED if has_defaults(r)} == set(rankers().values())


@pytest.mark.parametrize("check", ranker_checks(), ids=lambda check: check.__name__[6:])
@pytest.mark.parametrize("ranker", CHECKED, ids=repr)
def test_it_keeps_the_contract_of_a_ranker(ranker: Any, check: Callable[[Any], None]) -> None:
    check(ranker)


# Its data are odd on purpose: one grade, features of size 100. Rankers rightly warn there.
@pytest.mark.filterwarnings("ignore::rankwright.exceptions.RankwrightWarning")
@parametrize_with_checks(CHECKED)
def test_it_keeps_the_contract_of_a_scikit_learn_estimator(
    estimator: Any, check: Callable[[Any], None]
) -> None:
    check(estimator)
