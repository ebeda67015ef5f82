"""
Rank search results
===================

Train three rankers on graded documents and compare them on held-out queries.
"""

import rankwright as rw
from rankwright.data import make_queries, split_queries

data = make_queries(300, docs_per_query=20, n_features=12, random_state=0).items
train, test = (data.take(rows) for rows in split_queries(data.qid, random_state=0))

rankers = {
    "LambdaMART": rw.LambdaMART(),
    "RankBoost": rw.RankBoost(n_estimators=200),
    "RankSVM": rw.RankSVM(normalize="query"),
}
scores = {}
for name, ranker in rankers.items():
    ranker.fit(train.X, train.y, qid=train.qid)
    found = ranker.decision_function(test.X, qid=test.qid)
    scores[name] = rw.evaluate(found, test.y, test.qid, ["NDCG@10", "AP"])

# %%
# Letters denote the systems that a system beats significantly; bars are 95 % confidence
# intervals over queries.

table = rw.compare(scores)
print(table)
chart = rw.plot.means(table, "NDCG@10")
chart
