"""
Learn from one grade at a time
==============================

PRank and its successors see each item once: they predict its grade, then learn from it.
"""

import rankwright as rw
from rankwright.data import make_ordinal
from rankwright.selection import progressive

stream = make_ordinal(2000, random_state=0)
X = rw.rankers.PolynomialMap(degree=2).fit(stream.X).transform(stream.X)

rankers = {
    "PRank": rw.PRank(),
    "OAP-BPM": rw.OAPBPM(random_state=0),
    "BayesianPRank": rw.BayesianPRank(),
}
curves = {}
for name, ranker in rankers.items():
    steps = progressive(ranker, X, stream.y, classes=range(1, 6), every=20)
    curves[name] = [step["RankLoss"] for step in steps]
    print(f"{name:14} {curves[name][-1]:.3f}")

# %%
# The mean rank loss so far, at every twentieth item. The Bayes rule is the lower bound.

print(f"Bayes rule     {stream.bayes_rank_loss:.3f}")
chart = rw.plot.learning_curves(curves, "RankLoss")
chart
