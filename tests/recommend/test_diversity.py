"""Maximal marginal relevance of many lists at once against a loop over one list."""

from __future__ import annotations

import numpy as np
import pytest

import rankwright as rw
from rankwright.data import make_shop_log
from rankwright.recommend import Filter
from rankwright.recommend.lists import user_cosines


@pytest.mark.parametrize("cap", [None, 2])
def test_diverse_lists_are_those_of_a_plain_loop(cap) -> None:
    log = make_shop_log(5000, 200, 80, random_state=0)
    model = rw.Recommender(random_state=0).fit(log)
    categories = {item: item % 5 for item in log.items.tolist()}
    limits = {"categories": categories, "max_per_category": cap} if cap else {}
    found = model.recommend_all(n=4, filter=Filter(diversity=0.4, **limits))
    data = model.histories_
    cosines = user_cosines(data, np.arange(data.n_items))
    for user in log.users[:40].tolist():
        pool = model.recommend(user, 40)
        if not pool:
            assert found[user] == []
            continue
        number = data.item_vocabulary.numbers([item for item, _ in pool])
        score = np.array([value for _, value in pool])
        relevance = (score - score.min(initial=np.inf)) / max(float(np.ptp(score)), 1e-300)
        chosen: list[int] = []
        while len(chosen) < min(4, len(pool)):
            best, value = -1, -np.inf
            for at in range(len(pool)):
                kind = [categories[pool[c].item] for c in chosen].count(categories[pool[at].item])
                if at in chosen or (cap and kind >= cap):
                    continue
                near = max((cosines[number[at], number[c]] for c in chosen), default=0.0)
                if 0.6 * relevance[at] - 0.4 * near > value + 1e-6:
                    best, value = at, 0.6 * relevance[at] - 0.4 * near
            if best < 0:
                break
            chosen.append(best)
        assert [item for item, _ in found[user]] == [pool[at].item for at in chosen]
