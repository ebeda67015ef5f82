"""Events: fit, users a second, memory, growth and updates, beside implicit, EASE and LensKit.

Each system runs in a process of its own and starts from the same events; seconds are CPU seconds.
Memory is the highest resident set of fit and lists less that after reading the data, in a run where
memory that is freed goes back to the system at once (Linux: otherwise memory that reading freed
would serve the fit unseen). Goals: fit at most twice implicit ALS and EASE together, users a second
at least half of the peer's for the same kind of model, memory at most 1.5 times.

    python -m benchmarks recommend                             all of it
    python -m benchmarks events updates|event|peers|growth|large|files|new     one part
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import importlib.util
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from experiments.rankboost import topn_peers
from sklearn.base import clone

import rankwright as rw
from rankwright.data import make_shop_log
from rankwright.recommend.events import EASE, ImplicitALS, ItemCosine

N, N_USERS = 100, 2000
BASE = (500_000, 5_000, 1_000)  # events, users, items
LARGE = (10_000_000, 100_000, 10_000)


def events(name: str) -> rw.Interactions:
    """A set of ratings as events, or synthetic ones: "events,users,items"."""
    if "," in name:
        return synthetic(*map(int, name.split(",")))
    return rw.Interactions.from_ratings(rw.load_dataset(name))


def synthetic(n: int, n_users: int, n_items: int) -> rw.Interactions:
    """Random events: popular items more often, and those of the user's own group of ten."""
    rng = np.random.default_rng(0)
    user, item = rng.integers(0, n_users, n), (rng.random(n) ** 2 * n_items).astype(np.int64)
    own = item - item % 10 + user % 10
    item = np.where(rng.random(n) < 0.7, own, item) % n_items
    return rw.Interactions(user, item, time=np.arange(n))


def ours(experts: Any = None) -> Callable[[rw.Interactions], Any]:
    def train(data: rw.Interactions) -> Any:
        model = rw.Recommender(experts=experts, random_state=0).fit(data)
        return lambda users: model.recommend_all(data.users[users], N)

    return train


def implicit(make: Callable[[], Any]) -> Callable[[rw.Interactions], Any]:
    def train(data: rw.Interactions) -> Any:
        from scipy.sparse import csr_matrix

        table, model = csr_matrix(data.to_csr().astype(np.float32)), make()
        model.fit(table, show_progress=False)
        return lambda users: model.recommend(users, table[users], N=N)

    return train


def _als() -> Any:
    from implicit.als import AlternatingLeastSquares

    return AlternatingLeastSquares(factors=64, iterations=15, random_state=0)


def _cosine() -> Any:
    from implicit.nearest_neighbours import CosineRecommender

    return CosineRecommender(K=100)


def ease(data: rw.Interactions) -> Any:
    topn_peers.N = N
    return topn_peers.ease(data, l2=300.0)


def lenskit(data: rw.Interactions) -> Any:
    topn_peers.N = N
    return topn_peers.lenskit_knn(data, k=20)


SYSTEMS: dict[str, Callable[[rw.Interactions], Any]] = {
    "Recommender()": ours(),
    "EASE alone": ours([EASE()]),
    "ImplicitALS alone": ours([ImplicitALS()]),
    "ItemCosine alone": ours([ItemCosine()]),
    "peer EASE": ease,
    "implicit ALS": implicit(_als),
    "implicit cosine": implicit(_cosine),
    "LensKit ItemKNN": lenskit,
}


def one(name: str, data_name: str) -> None:
    """Run a system and print its figures as JSON."""
    SYSTEMS[name](synthetic(20_000, 200, 100))  # compile
    data = events(data_name)
    start_size = peak(reset=True)
    start = time.process_time()
    lists = SYSTEMS[name](data)
    fitted = time.process_time()
    users = np.arange(min(N_USERS, data.n_users))
    lists(users)
    done = time.process_time()
    size = peak() - start_size
    rate = len(users) / max(done - fitted, 1e-9)
    print(json.dumps({"fit": fitted - start, "rate": rate, "memory": size}))


def peak(*, reset: bool = False) -> float:
    """The highest resident set in MB, on Linux since it was reset."""
    status = Path("/proc/self/status")
    if not status.exists():
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    if reset:
        gc.collect()
        with contextlib.suppress(AttributeError):  # only glibc has it
            ctypes.CDLL(None).malloc_trim(0)
        Path("/proc/self/clear_refs").write_text("5")
    line = next(line for line in status.read_text().splitlines() if line.startswith("VmHWM"))
    return int(line.split()[1]) / 1024


def figures(name: str, data_name: str) -> dict[str, float] | None:
    """Time and rate of one run, memory of another, where memory that is freed is given back."""
    words = [sys.executable, "-W", "ignore", "-m", "benchmarks.events", name, data_name]
    env = {**os.environ, "OPENBLAS_NUM_THREADS": "1"}  # implicit asks for it
    runs: list[dict[str, float]] = []
    for more in ({}, {"MALLOC_MMAP_THRESHOLD_": "131072"}):
        done = subprocess.run(words, capture_output=True, text=True, check=False, env=env | more)
        if done.returncode:
            print(f"  {name:<22} left out: {done.stderr.strip().splitlines()[-1][:70]}", flush=True)
            return None
        runs.append(json.loads(done.stdout.splitlines()[-1]))
    found = runs[0] | {"memory": runs[1]["memory"]}
    row = f"{found['fit']:10.1f} s{found['rate']:12,.0f} users/s{found['memory']:10,.0f} MB"
    print(f"  {name:<22}{row}", flush=True)
    return found


def beside_peers(data_name: str) -> None:
    print(f"events of {data_name}: fit, lists of {N}, memory", flush=True)
    found = {name: figures(name, data_name) for name in SYSTEMS}
    mine, als, other = (found[n] for n in ("Recommender()", "implicit ALS", "peer EASE"))
    if mine and als and other:
        ratio = mine["fit"] / (als["fit"] + other["fit"])
        print(f"  default fit / (implicit ALS + EASE) {ratio:.2f} (goal: at most 2)")
    pairs = [("EASE alone", "peer EASE"), ("ImplicitALS alone", "implicit ALS")]
    for own, peer in [*pairs, ("ItemCosine alone", "implicit cosine")]:
        left, right = found[own], found[peer]
        if left and right:
            print(
                f"  {own} / {peer}: users a second {left['rate'] / right['rate']:.2f} (goal: at "
                f"least 0.5), memory {left['memory'] / max(right['memory'], 1):.2f} (at most 1.5)"
            )


def growth() -> None:
    """Four times the events, the users or the items, the others alike."""
    print("growth (synthetic): events, users, items", flush=True)
    small = figures("Recommender()", ",".join(map(str, BASE)))
    for at, kind in enumerate(("events", "users", "items")):
        size = [4 * n if place == at else n for place, n in enumerate(BASE)]
        large = figures("Recommender()", ",".join(map(str, size)))
        if small and large:
            fit = np.log(large["fit"] / small["fit"]) / np.log(4)
            each = np.log(small["rate"] / large["rate"]) / np.log(4)
            print(f"  exponent in {kind}: fit {fit:.2f}, time of a list {each:.2f}", flush=True)


def large() -> None:
    print("{:,} synthetic events, {:,} users, {:,} items".format(*LARGE), flush=True)
    figures("Recommender()", ",".join(map(str, LARGE)))


def new_users(data_name: str) -> None:
    """A new user with twenty items gets a list of ten; implicit solves the user as well."""
    data = events(data_name)
    model = rw.Recommender(random_state=0).fit(data)
    milliseconds = _median(data, lambda items: model.recommend_new(data.items[items].tolist()))
    print(f"recommend_new from 20 events of {data_name}: {milliseconds:.1f} ms")
    if importlib.util.find_spec("implicit") is not None:
        from scipy.sparse import csr_matrix

        peer, shape = _als(), (1, data.n_items)
        peer.fit(csr_matrix(data.to_csr().astype(np.float32)), show_progress=False)

        def by_als(items: np.ndarray) -> None:
            row = csr_matrix((np.ones(len(items), np.float32), ([0] * len(items), items)), shape)
            peer.recommend(0, row, N=10, recalculate_user=True)

        print(f"  implicit ALS alone {_median(data, by_als):.1f} ms", flush=True)
    if importlib.util.find_spec("lenskit") is not None:
        from lenskit import recommend
        from lenskit.data import ItemList, RecQuery

        pipeline = topn_peers.lenskit_pipeline(data, k=20)

        def by_lenskit(items: np.ndarray) -> None:
            recommend(pipeline, RecQuery(user_items=ItemList(item_ids=items)), n=10)

        print(f"  LensKit ItemKNN {_median(data, by_lenskit):.1f} ms", flush=True)


def _median(data: rw.Interactions, call: Callable[[np.ndarray], Any]) -> float:
    """CPU milliseconds of a call with twenty random items, the median of fifty."""
    rng, took = np.random.default_rng(0), []
    for _ in range(50):
        items = rng.choice(data.n_items, 20, replace=False)
        start = time.process_time()
        call(items)
        took.append(time.process_time() - start)
    return 1e3 * float(np.median(took))


def files(data_name: str) -> None:
    """The size of a model file beside the arrays it holds."""
    model = rw.Recommender(random_state=0).fit(events(data_name))
    data = model.histories_
    arrays = [data.users, data.items, data.ptr, data.item, data.weight, data.time]
    arrays += [a for e in model.model_.experts_ for a in vars(e).values() if a is not None]
    size = sum(a.nbytes for a in arrays if isinstance(a, np.ndarray) and a.dtype != bool)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.rw"
        rw.save(model, path)
        ratio = path.stat().st_size / size
    print(f"file of a recommender of {data_name}: {ratio:.2f} of {size / 1e6:.1f} MB of arrays")


def updates(data_name: str, n_new: int = 1000) -> None:
    """Single random events, then the same experts fitted again on everything.

    ``refit`` keeps the weights of the experts and goes on from the factors so far. ``fit`` is a new
    model of all events in the order of arrival, with the same seed. Two fits with different seeds
    show how much of the difference can be the seed's. Then each expert alone, updated and new.
    """
    data, n_old = events(data_name), -n_new
    rows = np.random.default_rng(0).permutation(len(data))
    data = data.take(np.concatenate([np.sort(rows[:n_old]), rows[n_old:]]))  # by arrival
    model = rw.Recommender(random_state=0).fit(data.take(slice(None, n_old)))
    start = time.process_time()
    for row in range(len(data) - n_new, len(data)):
        model.partial_fit(data.take([row]))
    seconds = (time.process_time() - start) / n_new
    start = time.process_time()
    model.recommend(data.users[0])
    first = time.process_time() - start
    updated = model.recommend_all()
    new, other = (rw.Recommender(random_state=k).fit(data) for k in (0, 1))
    every = new.recommend_all()
    print(f"{n_new} single events of {data_name}: {1e3 * seconds:.1f} ms each, the next list")
    print(f"  {1e3 * first:.1f} ms; same items in the top 10 (goal: 0.95) as after a new fit")
    print(f"  {same(updated, every):.3f}; two fits of all events with different seeds")
    print(f"  {same(every, other.recommend_all()):.3f}")
    kept = {repr(expert): expert for expert in new.model_.experts_}
    for expert in model.model_.experts_:
        beside = kept.get(repr(expert)) or clone(expert).fit(model.histories_)
        mine, fresh = (one.scores(model.histories_.rows) for one in (expert, beside))
        equal = ", equal bit for bit" if np.array_equal(mine, fresh) else ""
        alike = same_items(model, mine, fresh)
        print(f"    {expert!r}, updated and new: {alike:.3f}{equal}")
    again = same(updated, model.refit().recommend_all())
    print(f"  after refit, which keeps the weights of the experts: {again:.3f}", flush=True)


def one_event(size: str = "5000000,200000,50000", n_new: int = 100) -> None:
    """CPU time of one event of a known user and of the user's next list, in a log of a shop."""
    data = make_shop_log(*map(int, size.split(",")), random_state=0)
    start = time.process_time()
    model = rw.Recommender(random_state=0).fit(data)
    print(f"shop log {size} (events,users,items): fit {time.process_time() - start:.1f} s")
    rng, last, took = np.random.default_rng(0), float(data.time.max()), []
    for number in range(n_new):
        user, item = data.users[rng.integers(data.n_users)], data.items[data.item[number]]
        event = rw.Interactions([user], [item], time=[last + number])
        start = time.process_time()
        model.partial_fit(event)
        model.recommend(user)
        took.append(1e3 * (time.process_time() - start))
    middle, most = np.median(took), np.quantile(took, 0.95)
    print(
        f"  one event and the next list: median {middle:.2f} ms, 95 % below {most:.2f} ms (goal: 5)"
    )


def same_items(model: Any, left: np.ndarray, right: np.ndarray) -> float:
    """The share of the ten best items that two tables of scores have in common."""
    data, lists = model.histories_, []
    for scores in (left, right):
        scores[data.user, data.item] = -np.inf
        lists.append(model.model_.best(scores, 10).tolist())
    return float(np.mean([len({*a} & {*b}) / 10 for a, b in zip(*lists, strict=True)]))


def same(left: dict[Any, Any], right: dict[Any, Any]) -> float:
    common = sum(len({i for i, _ in left[u]} & {i for i, _ in right[u]}) for u in right)
    return float(common / sum(len(best) for best in right.values()))


PARTS: dict[str, Callable[[], None]] = {
    "updates": lambda: updates("movielens-100k"),
    "event": one_event,
    "peers": lambda: beside_peers("movielens-1m"),
    "new": lambda: new_users("movielens-1m"),
    "files": lambda: files("movielens-1m"),
    "growth": growth,
    "large": large,
}


def run(*parts: str) -> None:
    if parts:
        for part in parts:
            PARTS[part]()
        return
    try:
        events("movielens-100k")
    except rw.exceptions.DatasetError as error:
        print(f"skipped: {error}")
        return
    for part in PARTS.values():
        part()


if __name__ == "__main__":  # the processes that events() starts
    one(*sys.argv[1:3])
