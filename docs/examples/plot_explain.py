"""
Why is this document first?
===========================

Exact Shapley values add up to the score. Their differences between two rows explain the order.
"""

import rankwright as rw
from rankwright.data import make_queries

data = make_queries(150, docs_per_query=15, n_features=6, random_state=0).items
model = rw.LambdaMART(max_depth=3).fit(data.X, data.y, qid=data.qid)

first, second = model.decision_function(data.X[:15]).argsort()[::-1][:2]
print(model.explain(data.X[first], data.X[second]))

# %%
# The contribution of a feature to the score, as a function of its value. Trees are step
# functions.

chart = rw.plot.effects(model, data.X, n_features=4)
chart
