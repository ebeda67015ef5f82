"""Equal model files for workers, partitions and orders of rows: a part of ``benchmarks cluster``.

``python -m benchmarks cluster grid`` fits all combinations.
"""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone

import rankwright as rw

pytestmark = pytest.mark.filterwarnings("ignore::rankwright.exceptions.ClusterWarning")

MODELS = {
    "RidgeRanker": rw.RidgeRanker(),
    "MPRank": rw.MPRank(C=10.0),
    "RankSVM": rw.RankSVM(),
    "LambdaMART": rw.LambdaMART(n_estimators=2, subsample=0.7, random_state=0),
    "RankBoost": rw.RankBoost(n_estimators=3),
    "OAPBPM": rw.OAPBPM(n_estimators=3, random_state=0),
}
# Pairs of workers and partitions; together all of 1, 2, 3 and of 1, 2, 7, 64.
PLACES = [(1, 64), (2, 7), (3, 2), (2, 1), (3, 7), (3, 64)]


@pytest.mark.parametrize("name, first", list(zip(MODELS, PLACES, strict=True)))
def test_workers_partitions_and_order(name, first, judged, clients, model_bytes, monkeypatch):
    """Data frames in partitions that tear queries."""
    from_pandas = pytest.importorskip("dask.dataframe").from_pandas
    monkeypatch.setattr("rankwright.rankers.boosting.weak_learners.splitting.FEW_ENTRIES", 0)
    X, names = np.nan_to_num(judged.X), [*"abcde"]
    frame = pd.DataFrame(X, columns=names).assign(label=judged.y, query=judged.qid)
    model, files = MODELS[name], set()
    local = clone(model).fit(frame[names], frame["label"], qid=frame["query"])
    if name in ("LambdaMART", "RankBoost", "OAPBPM"):
        files.add(model_bytes(local))
    for threads in (1, 2):
        with rw.engine(f"local:{threads}"):
            here = clone(model).fit(frame[names], frame["label"], qid=frame["query"])
        files.add(model_bytes(here))
    for n_workers, n_partitions in (first, PLACES[PLACES.index(first) - 3]):
        # A stream in another order is another stream.
        order = frame if name == "OAPBPM" else frame.sample(frac=1.0, random_state=n_partitions)
        ddf = from_pandas(order, npartitions=n_partitions, sort=False)
        with rw.engine(clients[n_workers]):
            files.add(model_bytes(clone(model).fit(ddf, y="label", qid="query")))
    assert len(files) == 1
