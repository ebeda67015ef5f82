"""
Several engines, one list
=========================

``fuse`` combines lists by a fixed rule. ``LearnedFusion`` learns from judged queries which engine
to trust, and down to which rank.
"""

import rankwright as rw
from rankwright.data import make_engines, split_queries

sample = make_engines(80, n_engines=5, random_state=0)
train, test = (sample.qrels.take(rows) for rows in split_queries(sample.qrels.query))

systems = {f"engine {k + 1}": run for k, run in enumerate(sample.runs)}
systems["reciprocal rank fusion"] = rw.fuse(sample.runs)
systems["CombSUM"] = rw.fuse(sample.runs, method="sum")
systems["LearnedFusion"] = rw.LearnedFusion().fit(sample.runs, train).fuse(sample.runs)

# %%
# Average precision on the held-out queries.

scores = {}
for name, run in systems.items():
    judged = rw.data.align(run, test)
    scores[name] = rw.evaluate(judged.scores, judged.y, judged.qid, "AP")
chart = rw.plot.means(rw.compare(scores), "AP")
chart
