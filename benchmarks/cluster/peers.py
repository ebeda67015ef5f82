"""The Dask rankers of LightGBM and XGBoost beside LambdaMART."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

from benchmarks.cluster.setup import cluster, every_model, files, fingerprint, fit_on, timed


def peers(options: Any) -> None:
    """lightgbm.dask and xgboost.dask beside LambdaMART: seconds, and different models"""
    systems = {"LambdaMART": ours, "LightGBM": lightgbm, "XGBoost": xgboost}
    for n in options.rows:
        texts: dict[str, list[str]] = {name: [] for name in systems}
        prints: dict[str, set[str]] = {name: set() for name in systems}
        with files(n, part=-(-n // 12)) as folder, files(2000, part=500) as few:
            for count in (1, 2, 3):
                with cluster(count) as client:
                    for name, fit in systems.items():
                        try:
                            fit(client, few, 2)
                            took, text = timed(fit, client, folder, options.rounds)
                        except ImportError as error:
                            texts[name].append(str(error))
                            continue
                        prints[name].add(text)
                        texts[name].append(f"{count}: {took:.1f} s")
        for name in systems:
            print(f"{n:>9,} rows  {name:<10} workers {'  '.join(texts[name])}   different models: "
                  f"{len(prints[name])}", flush=True)  # fmt: skip


def ours(client: Any, folder: Path, rounds: int) -> str:
    return fingerprint(fit_on(client, every_model(rounds)["LambdaMART"](), folder))


def lightgbm(client: Any, folder: Path, rounds: int) -> str:
    from dask import dataframe as dd
    from lightgbm import DaskLGBMRanker

    frame = dd.read_parquet(folder).persist()  # files hold whole queries in order
    columns = [c for c in frame.columns if c not in ("label", "query")]
    group = frame["query"].map_partitions(
        lambda part: part.groupby(part, sort=False).size(), meta=("size", "i8")
    )
    model = DaskLGBMRanker(client=client, n_estimators=rounds, num_leaves=31, verbose=-1)
    model.fit(frame[columns], frame["label"].astype(int), group=group)
    text = model.booster_.model_to_string().split("feature_importances")[0]
    return hashlib.sha256("\n".join(text.splitlines()[8:]).encode()).hexdigest()


def xgboost(client: Any, folder: Path, rounds: int) -> str:
    from dask import dataframe as dd
    from xgboost.dask import DaskXGBRanker

    frame = dd.read_parquet(folder).persist()
    columns = [c for c in frame.columns if c not in ("label", "query")]
    model = DaskXGBRanker(n_estimators=rounds, max_leaves=31, grow_policy="lossguide",
                          tree_method="hist", allow_group_split=True)  # fmt: skip
    model.client = client
    model.fit(frame[columns], frame["label"].astype(int), qid=frame["query"])
    return hashlib.sha256("".join(model.get_booster().get_dump()).encode()).hexdigest()
