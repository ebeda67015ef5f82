"""How many files of the package a reader passes through: train, predict, RankBoost, Recommender.

A file counts when one of its functions runs; running its top level at import does not count. Each
walk runs in its own process with one thread and compiled kernels, as a debugger would step it.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile

SETUP = """
import os, sys
import rankwright as rw
from rankwright.cli.app import main
from rankwright.data import make_queries, make_ratings
items = make_queries(40, random_state=0).items
ratings = make_ratings(60, 40, random_state=0).ratings
package, files = os.path.dirname(rw.__file__), set()
def watch(frame, event, _):
    file = frame.f_code.co_filename
    if event == "call" and file.startswith(package):
        files.add(os.path.relpath(file, package))
def command(*words):
    sys.argv = ["rankwright", *words]
    main()
rw.write_letor(items, "train.txt")
rw.save(rw.RankSVM().fit(items.X, items.y, qid=items.qid), "model.rw")
"""

WALKS = {
    "rankwright train": 'command("train", "train.txt")',
    "rankwright predict": 'command("predict", "model.rw", "train.txt")',
    "RankBoost.fit": "rw.RankBoost().fit(items.X, items.y, qid=items.qid)",
    "Recommender.fit": "rw.Recommender(random_state=0).fit(ratings)",
}
# The first run imports and compiles; the second is watched.
WATCHED = """
{walk}
sys.setprofile(watch)
{walk}
sys.setprofile(None)
print("FILES", *sorted(files), sep="\\n")
"""


def run() -> None:
    for name, walk in WALKS.items():
        with tempfile.TemporaryDirectory() as folder:
            answer = subprocess.run(
                [sys.executable, "-c", SETUP + WATCHED.format(walk=walk)],
                cwd=folder,
                env=os.environ | {"OMP_NUM_THREADS": "1", "NUMBA_NUM_THREADS": "1"},
                capture_output=True,
                text=True,
                check=True,
            )
        files = answer.stdout.rsplit("FILES\n", 1)[1].split()
        print(f"{name}: {len(files)} files")
        for file in files:
            print(f"  {file}")
