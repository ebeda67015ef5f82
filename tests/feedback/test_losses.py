"""The registry of pair losses and pair weights."""

from __future__ import annotations

import numpy as np
import pytest

import rankwright as rw
from rankwright.feedback.losses import LOSSES, WEIGHTINGS, loss_names, weighting_names


def test_every_name_has_its_own_code() -> None:
    for codes in ([loss.code for loss in LOSSES.values()], list(WEIGHTINGS.values())):
        assert len(set(codes)) == len(codes)


def test_a_ranker_cannot_declare_what_is_not_registered() -> None:
    with pytest.raises(KeyError, match="cross_entropy"):
        loss_names("logistic", "cross_entropy")
    with pytest.raises(KeyError, match="ndcg"):
        weighting_names("ndcg")


@pytest.mark.parametrize("ranker", [rw.RankBoost, rw.RankNet, rw.RankSVM, rw.LambdaMART])
def test_rankers_share_one_spelling_of_weights(ranker: type) -> None:
    X, y = np.arange(90.0)[:, None], np.arange(90) // 30
    assert np.isfinite(ranker(weighting="NDCG").fit(X, y).decision_function(X)).all()
    with pytest.raises(rw.ParameterError, match="NDCG"):
        ranker(weighting="ndcg").fit(X, y)


def test_rankers_share_one_spelling_of_losses() -> None:
    X, y = np.arange(90.0)[:, None], np.arange(90) // 30
    for ranker in (rw.RankNet(loss="logistic", max_iter=2), rw.LambdaMART(loss="logistic")):
        ranker.fit(X, y)
    with pytest.raises(rw.ParameterError, match="logistic"):
        rw.RankNet(loss="cross_entropy").fit(X, y)
