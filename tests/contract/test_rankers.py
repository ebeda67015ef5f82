"""Every public ranker, in its main variants, against every common check."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

from contract.instances import INSTANCES
from rankwright.rankers.base import rankers
from rankwright.testing.ranker import ranker_checks


def test_every_public_ranker_is_checked() -> None:
    assert {type(ranker) for ranker in INSTANCES} == set(rankers().values())


@pytest.mark.parametrize("check", ranker_checks(), ids=lambda check: check.__name__[6:])
@pytest.mark.parametrize("ranker", INSTANCES, ids=repr)
def test_it_keeps_the_contract_of_a_ranker(ranker: Any, check: Callable[[Any], None]) -> None:
    check(ranker)


# Its data are odd on purpose: one grade, features of size 100. Rankers rightly warn there.
@pytest.mark.filterwarnings("ignore::rankwright.exceptions.RankwrightWarning")
@parametrize_with_checks(INSTANCES)
def test_it_keeps_the_contract_of_a_scikit_learn_estimator(
    estimator: Any, check: Callable[[Any], None]
) -> None:
    check(estimator)
