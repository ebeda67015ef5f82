"""
Recommend the next item
=======================

Recommend ten items to each user from a log of events. Evaluated on the last item of each user, over
the whole catalog.
"""

import altair as alt
import numpy as np

import rankwright as rw
from rankwright.data import make_ratings
from rankwright.recommend import evaluate_top_n
from rankwright.recommend.events import ItemCosine, Popularity

ratings = make_ratings(400, 150, random_state=0).ratings
liked = np.random.default_rng(0).permutation(np.flatnonzero(ratings.value >= 4))
events = rw.Interactions(ratings.users[ratings.user[liked]], ratings.items[ratings.item[liked]])

model = rw.Recommender(random_state=0).fit(events)
print(model.explain(3, model.recommend(3, n=1)[0].item))

# %%
# The default learns the weights of its experts on held-out events. Compare it with two of them.

rows = []
for name, experts in (
    ("popular items", [Popularity()]),
    ("similar items", [ItemCosine()]),
    ("all experts", None),
):
    found = evaluate_top_n(rw.Recommender(experts=experts, random_state=0), events)
    hits = found.measures["HitRate@10"]
    rows.append({"model": name, "HitRate@10": hits.value, "low": hits.low, "high": hits.high})

base = alt.Chart(alt.Data(values=rows), width=480).encode(y=alt.Y("model:N", sort=None, title=None))
chart = base.mark_bar(opacity=0.6).encode(
    x=alt.X("HitRate@10:Q", title="HitRate@10")
) + base.mark_rule().encode(x="low:Q", x2="high:Q")
chart
