"""
Stop when it stops helping
==========================

A validation set shows how the ranking improves with each tree, and where to stop.
"""

import rankwright as rw
from rankwright.data import make_queries, split_queries

data = make_queries(200, docs_per_query=20, n_features=10, noise=1.0, random_state=1).items
train, valid = (data.take(rows) for rows in split_queries(data.qid, random_state=0))

curves = {}
for rate in (0.3, 0.1, 0.03):
    model = rw.LambdaMART(n_estimators=120, learning_rate=rate)
    model.fit(train.X, train.y, qid=train.qid, eval_set=(valid.X, valid.y), eval_qid=valid.qid)
    curves[f"learning_rate={rate}"] = model.validation_

chart = rw.plot.learning_curves(curves)
chart

# %%
# ``early_stopping=20`` ends training after 20 rounds without improvement and keeps the best round.

model = rw.LambdaMART(n_estimators=500, early_stopping=20)
model.fit(train.X, train.y, qid=train.qid, eval_set=(valid.X, valid.y), eval_qid=valid.qid)
print(model.best_iteration_, "trees kept")
