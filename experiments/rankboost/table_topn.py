"""Which ten of all items does a user take next? Ours and peers over the whole catalog, one run.

Each system has three settings, tried on a validation part that is split off the training events
like the test part; the best by NDCG@10 is trained on all training events and tested.
``Recommender()`` is the default, without a choice. *Last*: the last event of each user. *Time*: the
last tenth of the events, for users with earlier ones. Data without times: one random event of each
user. Recall* is hits over the smaller of 10 and the relevant items. In brackets the half-width of
the 95 % interval of NDCG@10 over users; the last column is the mean paired difference of NDCG@10
from the best peer with such an interval.

    python -m experiments rankboost/table_topn [--quick] [--data=NAME]
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
from experiments.rankboost.topn_peers import SYSTEMS, Lists, System

import rankwright as rw
from rankwright.data.splits import leave_out
from rankwright.recommend.evaluation import split_by_time
from rankwright.recommend.protocol import leave_last_out, measure_lists, relevant_pairs

RESULTS = Path(__file__).parents[1] / "_results"
DATA: dict[str, tuple[str, float | None]] = {
    "MovieLens 100k, all": ("movielens-100k", None),
    "MovieLens 100k, >= 4": ("movielens-100k", 4.0),
    "MovieLens 1M, all": ("movielens-1m", None),
    "MovieLens 1M, >= 4": ("movielens-1m", 4.0),
    "Jester, >= 5": ("jester", 5.0),
    "Book-Crossing, all": ("book-crossing", None),
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
    return measure_lists(lists(users), users, train, relevant).per_user


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


def one_split(events: rw.Interactions, how: str) -> dict[str, dict[str, Any]]:
    train, test = cut(events, how)
    users, relevant = questions(train, test)
    n_relevant = np.bincount(relevant[0], minlength=train.n_users)[users]
    rows: dict[str, dict[str, Any]] = {}
    for name, system in SYSTEMS.items():
        if not system.installed:
            print(f"  {name}: {system.library} is not installed, left out", flush=True)
            continue
        start = time.process_time()
        setting = chosen(system, train, how)
        values = measured(system.train(train, **setting), train, users, relevant)
        recall = values["Recall"] * n_relevant / np.minimum(n_relevant, 10)
        rows[name] = {
            "HitRate@10": float(values["HitRate"].mean()),
            "Recall*@10": float(recall.mean()),
            "NDCG@10": float(values["NDCG"].mean()),
            "half": half_width(values["NDCG"]),
            "setting": setting,
            "seconds": time.process_time() - start,
            "per_user": values["NDCG"],
        }
        print(line(name, rows[name]), flush=True)
    peers = [name for name in rows if not name.startswith("Recommender")]
    best = max(peers, key=lambda name: rows[name]["NDCG@10"])
    for name in rows.keys() - set(peers):
        gain = rows[name]["per_user"] - rows[best]["per_user"]
        rows[name]["gain"] = (float(gain.mean()), half_width(gain))
        print(f"  {name} less {best}: {gain.mean():+.4f} +- {half_width(gain):.4f}", flush=True)
    for row in rows.values():
        del row["per_user"]
    return rows


def half_width(values: np.ndarray) -> float:
    return float(1.96 * values.std() / np.sqrt(max(len(values), 1)))


def line(name: str, row: dict[str, Any]) -> str:
    figures = f"{row['HitRate@10']:9.4f}{row['Recall*@10']:9.4f}{row['NDCG@10']:9.4f}"
    return f"  {name:<26}{figures} (+-{row['half']:.4f}){row['seconds']:8.0f} s  {row['setting']}"


def main(argv: list[str] | None = None) -> None:
    words = sys.argv[1:] if argv is None else argv
    names = [word.removeprefix("--data=") for word in words if word.startswith("--data=")]
    quick = ["MovieLens 100k, all"] if "--quick" in words else list(DATA)
    results = {}
    RESULTS.mkdir(exist_ok=True)
    for title in quick:
        name, at_least = DATA[title]
        if names and name not in names:
            continue
        try:
            events = rw.Interactions.from_ratings(rw.load_dataset(name), at_least=at_least)
        except rw.exceptions.DatasetError as error:
            print(f"{title}: {error}")
            continue
        for how in ("last", "time") if events.time is not None else ("random",):
            print(f"{title}, {how}: {events}", flush=True)
            results[f"{title}, {how}"] = one_split(events, how)
            (RESULTS / "rankboost_table_topn.json").write_text(json.dumps(results, indent=1))


if __name__ == "__main__":
    main()
