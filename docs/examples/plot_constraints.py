"""
More clicks never rank lower
============================

A monotone constraint prevents noisy labels from reversing the effect of a feature.
"""

import altair as alt
import numpy as np

import rankwright as rw

rng = np.random.default_rng(0)
X = rng.uniform(0, 1, (1500, 2))
y = np.digitize(X[:, 0] + 0.3 * X[:, 1] + rng.normal(0, 0.6, 1500), [0.3, 0.7, 1.1])
qid = np.repeat(np.arange(100), 15)

rows = []
for name, signs in (("free", None), ("monotonic_cst=[1, 0]", [1, 0])):
    model = rw.LambdaMART(max_depth=3, monotonic_cst=signs)
    model.fit(X, y, qid=qid)
    curve = rw.partial_dependence(model, X, 0)
    rows += [
        {"model": name, "clicks": float(x), "score": float(score)}
        for x, score in zip(curve.values, curve.scores, strict=True)
    ]

chart = (
    alt.Chart(alt.Data(values=rows), width=480, height=240)
    .mark_line(interpolate="step-before")
    .encode(x="clicks:Q", y="score:Q", color="model:N")
)
chart
