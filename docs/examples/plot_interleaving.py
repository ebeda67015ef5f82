"""
Which ranker do users prefer?
=============================

Show lists that mix two rankers and credit each click to the ranker that contributed the item. The
interval is valid at any time, so stop as soon as it excludes one half.
"""

import altair as alt
import numpy as np

import rankwright as rw
from rankwright.data import make_queries
from rankwright.online_eval import InterleavingTest, credit, interleave, stable_seed

items = make_queries(100, docs_per_query=10, n_features=6, n_grades=3, random_state=2).items
users = rw.ClickSimulator(items, examination=1 / np.arange(1, 9))
lists = [users.lists(items.X[:, 0]), users.lists(items.X[:, 0] + 0.5 * items.X[:, 3])]
rng = np.random.default_rng(0)
test, rows = InterleavingTest(["old", "new"]), []
for visit in range(4000):
    query = int(rng.integers(items.n_queries))
    both = [list(ranked[query]) for ranked in lists]
    shown = interleave(both, n=8, seed=stable_seed(query, f"user {visit}"))
    seen = rng.random(len(shown.items)) < users.examination[: len(shown.items)]
    liked = rng.random(len(shown.items)) < users.relevance[list(shown.items)]
    test.add(
        credit(shown, [item for item, hit in zip(shown.items, seen & liked, strict=True) if hit])
    )
    if visit % 50 == 49:
        low, high = test.result("new", "old").interval
        rows.append({"sessions": visit + 1, "low": float(low), "high": float(high)})

result = test.result("new", "old")
print(f"{result.wins} won, {result.losses} lost, {result.ties} tied; better: {result.better}")

# %%
# The always-valid interval of the new ranker's win rate. Above one half, the new ranker is
# better.

base = alt.Chart(alt.Data(values=rows), width=480, height=220).encode(x="sessions:Q")
half = alt.Chart(alt.Data(values=[{"half": 0.5}])).mark_rule(strokeDash=[4, 4]).encode(y="half:Q")
chart = (
    base.mark_area(opacity=0.5).encode(
        y=alt.Y("low:Q", title="share won by the new ranker", scale=alt.Scale(domain=[0, 1])),
        y2="high:Q",
    )
    + half
)
chart
