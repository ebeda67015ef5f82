"""
Clicks without position bias
============================

Users examine the first result more often than the tenth. Clicks divided by the probability of
examination estimate relevance; raw clicks reproduce the old order.
"""

import altair as alt
import numpy as np

import rankwright as rw
from rankwright.data import make_queries

items = make_queries(150, docs_per_query=10, n_features=6, n_grades=3, random_state=2).items
items = rw.Items(items.X, items.y, items.qid, docid=[f"doc{k}" for k in range(len(items))])
users = rw.ClickSimulator(items, examination=1 / np.arange(1, 9), noise=0.05)
old = items.X[:, 0] + 0.5 * items.X[:, 3]
log = users.sessions(old, 20_000)

# %%
# A small experiment swaps the first item with a random one. From it we estimate how often each
# position is examined.

swapped = users.sessions(old, 2000, experiment="swap", random_state=1)
propensity = rw.feedback.estimate_propensities(swapped)
rows = [
    {"position": k + 1, "examined": float(value), "kind": kind}
    for kind, values in (("estimated", propensity), ("true", users.examination))
    for k, value in enumerate(values)
]
chart = (
    alt.Chart(alt.Data(values=rows), width=480, height=220)
    .mark_line(point=True)
    .encode(x="position:O", y="examined:Q", color="kind:N")
)
chart

# %%
# Train with and without the correction. On simulated data we know the expected clicks per list
# of each order.

models = {}
for name, weights in (("naive", np.ones(8)), ("corrected", propensity)):
    relevance = rw.feedback.click_relevance(log, items, weights)
    models[name] = relevance.fit(rw.RankSVM(C=1.0, normalize="query"), items.X)

print(f"old order  {users.expected_clicks(old):.3f}")
for name, model in models.items():
    scores = model.decision_function(items.X, qid=items.qid)
    print(f"{name:10} {users.expected_clicks(scores):.3f}")
