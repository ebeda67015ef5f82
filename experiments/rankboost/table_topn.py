"""Which ten of all items does a user take next? Ours and peers over the whole catalog, one run.

Each system has three settings, tried on a validation part that is split off the training events
like the test part; the best by NDCG@10 is trained on all training events and tested.
``Recommender()`` is the default, without a choice; its lists are for the horizon of the split.
``SLIT`` is its expert of order alone, and ``TwoStageRecommender()`` orders its candidates by
LambdaMART. *Last*: the last new item of each user. *Time*: the last tenth of the events, for users
with earlier ones. Data without times: one random event of each
user. Recall* is hits over the smaller of 10 and the relevant items. In brackets the half-width of
the 95 % interval of NDCG@10 over users; the last column is the mean paired difference of NDCG@10
from the best peer with such an interval.

To bound the cost, at most 3000 users are tested, Jester is 5000 of its users drawn at random, and
Book-Crossing has only the books with 10 events or more and the users with 5 or more of those.

    python -m experiments rankboost/table_topn [--quick] [--data=NAME] [--system=NAME] [--keep]

Results are written after each system. ``--keep`` does not run again what an earlier run finished.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
from experiments.rankboost.topn_peers import OURS, SYSTEMS, Lists, System

import rankwright as rw
from rankwright.data import leave_out, make_shop_log
from rankwright.recommend import leave_last_out, split_by_time
from rankwright.recommend.evaluation import relevant_pairs
from rankwright.recommend.reports import report_of

RESULTS = Path(__file__).parents[1] / "_results"
DATA: dict[str, tuple[str, float | None]] = {
    "MovieLens 100k, all": ("movielens-100k", None),
    "MovieLens 100k, >= 4": ("movielens-100k", 4.0),
    "MovieLens 1M, all": ("movielens-1m", None),
    "MovieLens 1M, >= 4": ("movielens-1m", 4.0),
    "Jester, >= 5": ("jester", 5.0),
    "Book-Crossing, all": ("book-crossing", None),
    "shop, 500,000 events": ("500000,20000,10000", None),
    "shop, 5,000,000 events": ("5000000,200000,50000", None),
}
MAX_USERS = 3000  # tested of each set, the same for all systems


def cut(events: rw.Interactions, how: str) -> tuple[rw.Interactions, rw.Interactions]:
    if how == "time":
        split = split_by_time(events, test_size=0.1)
    elif how == "last":
        split = leave_last_out(events)
    else:
        split = leave_out(events.user, 1, random_state=0)
    return events.take(split.train), events.take(split.test)


def questions(train: rw.Interactions, test: rw.Interactions) -> tuple[np.ndarray, Any]:
    """Users with training events, and what they took; at most MAX_USERS of them."""
    user, item = relevant_pairs(train, test)
    warm = np.unique(user[train.user_counts[user] > 0])
    users = np.sort(np.random.default_rng(0).permutation(warm)[:MAX_USERS])
    kept = np.isin(user, users)
    return users, (user[kept], item[kept])


def measured(lists: Lists, train: rw.Interactions, users: np.ndarray, relevant: Any) -> Any:
    return report_of(lists(users), users, train, relevant).per_user


def chosen(system: System, train: rw.Interactions, how: str) -> dict[str, Any]:
    """The setting with the best NDCG@10 on a validation part."""
    if len(system.settings) == 1:
        return system.settings[0]
    part, held_out = cut(train, how)
    users, relevant = questions(part, held_out)
    found = [
        measured(system.train(part, **setting), part, users, relevant)["NDCG"].mean()
        for setting in system.settings
    ]
    return system.settings[int(np.argmax(found))]


def run_system(name: str, events: rw.Interactions, how: str) -> dict[str, Any]:
    """Choose a setting, train, test."""
    train, test = cut(events, how)
    users, relevant = questions(train, test)
    n_relevant = np.bincount(relevant[0], minlength=train.n_users)[users]
    start, system = time.process_time(), SYSTEMS[name]
    setting = chosen(system, train, how)
    if name in OURS:
        setting = {**setting, "horizon": "period" if how == "time" else "next"}
    values = measured(system.train(train, **setting), train, users, relevant)
    recall = values["Recall"] * n_relevant / np.minimum(n_relevant, 10)
    return {
        "HitRate@10": float(values["HitRate"].mean()),
        "Recall*@10": float(recall.mean()),
        "NDCG@10": float(values["NDCG"].mean()),
        "half": half_width(values["NDCG"]),
        "setting": setting,
        "seconds": time.process_time() - start,
        "per_user": values["NDCG"].round(6).tolist(),
    }


def compare(rows: dict[str, dict[str, Any]]) -> None:
    """Print what ours has more than the best peer; 0 inside the interval is a tie."""
    peers = [name for name in rows if name not in OURS]
    pairs = []
    if peers:
        best = max(peers, key=lambda name: rows[name]["NDCG@10"])
        pairs = [(name, best) for name in rows if name in OURS]
    if "TwoStageRecommender()" in rows and "Recommender()" in rows:
        pairs.append(("TwoStageRecommender()", "Recommender()"))
    for name, best in pairs:
        gain = np.subtract(rows[name]["per_user"], rows[best]["per_user"])
        half = half_width(gain)
        rows[name]["gain"] = (float(gain.mean()), half)
        verdict = "a tie" if abs(gain.mean()) <= half else "better" if gain.mean() > 0 else "worse"
        print(f"  {name} less {best}: {gain.mean():+.4f} +- {half:.4f}, {verdict}", flush=True)


def half_width(values: np.ndarray) -> float:
    return float(1.96 * values.std() / np.sqrt(max(len(values), 1)))


def line(name: str, row: dict[str, Any]) -> str:
    figures = f"{row['HitRate@10']:9.4f}{row['Recall*@10']:9.4f}{row['NDCG@10']:9.4f}"
    return f"  {name:<26}{figures} (+-{row['half']:.4f}){row['seconds']:8.0f} s  {row['setting']}"


def load(title: str) -> rw.Interactions:
    name, at_least = DATA[title]
    if "," in name:
        return make_shop_log(*map(int, name.split(",")), random_state=0)
    ratings = rw.load_dataset(name)
    if name == "jester":
        users = np.random.default_rng(0).permutation(ratings.n_users)[:5000]
        ratings = ratings.take(np.isin(ratings.user, users)).compact()
    if name == "book-crossing":
        ratings = ratings.take(ratings.item_counts[ratings.item] >= 10).compact()
        ratings = ratings.take(ratings.user_counts[ratings.user] >= 5).compact()
    return rw.Interactions.from_ratings(ratings, at_least=at_least)


def main(argv: list[str] | None = None) -> None:
    words = sys.argv[1:] if argv is None else argv
    names = [word.removeprefix("--data=") for word in words if word.startswith("--data=")]
    only = [word.removeprefix("--system=") for word in words if word.startswith("--system=")]
    path = RESULTS / "rankboost_table_topn.json"
    RESULTS.mkdir(exist_ok=True)
    results: dict[str, Any] = json.loads(path.read_text()) if path.exists() else {}
    for title in ["MovieLens 100k, all"] if "--quick" in words else list(DATA):
        if names and DATA[title][0] not in names:
            continue
        try:
            events = load(title)
        except rw.exceptions.DatasetError as error:
            print(f"{title}: {error}")
            continue
        for how in ("last", "time") if events.time is not None else ("random",):
            print(f"{title}, {how}: {events}", flush=True)
            rows = results.setdefault(f"{title}, {how}", {})
            for name, system in SYSTEMS.items():
                if name == "TwoStageRecommender()" and events.time is None:
                    continue
                if (not only or name in only) and not ("--keep" in words and name in rows):
                    if not system.installed:
                        print(f"  {name}: {system.library} is not installed, left out", flush=True)
                        continue
                    rows[name] = run_system(name, events, how)
                    path.write_text(json.dumps(results))
                if name in rows:
                    print(line(name, rows[name]), flush=True)
            compare({name: rows[name] for name in SYSTEMS if name in rows})
            path.write_text(json.dumps(results))


if __name__ == "__main__":
    main()
