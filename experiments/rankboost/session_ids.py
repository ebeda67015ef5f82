"""What ids of sessions add: the default recommender of a generated shop log, with and without them.

    python -m experiments.rankboost.session_ids [--events=100000]

The next item (the last new item of each user) and the coming time (the last tenth), NDCG@10 and the
paired difference. The factor of earlier sessions (a tenth) was chosen on the same log.
"""

from __future__ import annotations

import sys

import rankwright as rw
from rankwright.data import make_shop_log
from rankwright.recommend import compare, evaluate_top_n


def main(words: list[str]) -> None:
    given = dict(word.removeprefix("--").split("=") for word in words)
    n = int(given.get("events", "100000"))
    log = make_shop_log(n, n // 20, 3 * n // 100, random_state=0)
    columns = log.to_columns()
    ids, session, time = (columns["user"], columns["item"]), columns["session"], columns["time"]
    logs = [rw.Interactions(*ids, time=time), rw.Interactions(*ids, time=time, session=session)]
    print(f"shop log: {logs[0].facts()}, {len(set(session.tolist()))} sessions")
    for split in ("last", "time"):
        reports = [evaluate_top_n(rw.Recommender(random_state=0), d, split) for d in logs]
        values = [report["NDCG@10"] for report in reports]
        difference = compare(*reports).differences["NDCG@10"]
        print(
            f"{split}: without {values[0]:.4f}, with {values[1]:.4f}, difference "
            f"{difference.value:+.4f} [{difference.low:+.4f}, {difference.high:+.4f}]",
            flush=True,
        )


if __name__ == "__main__":
    main(sys.argv[1:])
