"""OAP ensembles on an engine: members learn separately what they learn on one machine."""

from __future__ import annotations

import numpy as np
import pytest

import rankwright as rw
from rankwright.exceptions import ParameterError

pytestmark = pytest.mark.filterwarnings("ignore::rankwright.exceptions.ClusterWarning")

ENSEMBLES = [
    rw.OAPBPM(n_estimators=7, random_state=0),
    rw.OAPVoting(n_estimators=3, random_state=1, sampling="poisson"),
    rw.OAPBagging(estimator=rw.WidrowHoff(), n_estimators=3, random_state=2),
]


@pytest.mark.parametrize("ensemble", ENSEMBLES, ids=lambda one: type(one).__name__)
def test_members_learn_what_they_learn_on_one_machine(ensemble, judged, model_bytes, client):
    X, y, qid = np.nan_to_num(judged.X), judged.y, judged.qid
    local = model_bytes(ensemble.fit(X, y, qid=qid))
    for where in ("local:1", "local:3", client):
        with rw.engine(where):
            assert model_bytes(ensemble.fit(X, y, qid=qid)) == local


def test_members_of_a_kernel_share_a_support(judged):
    model = rw.OAPBPM(estimator=rw.KernelPRank(kernel="rbf"), n_estimators=2)
    with rw.engine("local"), pytest.raises(ParameterError, match="share one support"):
        model.fit(np.nan_to_num(judged.X), judged.y)
