"""
How much better?
================

MPRank learns differences: by how many points one item is better than another, not only which.
"""

import altair as alt
import numpy as np

import rankwright as rw

rng = np.random.default_rng(0)
X = rng.normal(size=(400, 3))
price = 20 + 8 * np.tanh(X[:, 0]) + 3 * X[:, 1] ** 2 + rng.normal(0, 1, 400)
qid = np.repeat(np.arange(20), 20)
train, test = slice(0, 300), slice(300, 400)

model = rw.MPRank(C=10.0, kernel="rbf", gamma=0.3).fit(X[train], price[train], qid=qid[train])
first, second = np.arange(300, 400, 2), np.arange(301, 400, 2)
rows = [
    {"true": float(true), "predicted": float(gap)}
    for true, gap in zip(
        price[first] - price[second], model.predict_gap(X[first], X[second]), strict=True
    )
]
chart = (
    alt.Chart(alt.Data(values=rows), width=320, height=320)
    .mark_point()
    .encode(x=alt.X("true:Q", title="true difference"), y="predicted:Q")
)
chart

# %%
# Cut the list before the largest gap.

scores = np.sort(model.predict(X[300:320]))[::-1]
print(np.round(scores, 1), "show", rw.cut_at_gap(scores))
