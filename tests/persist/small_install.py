"""Load and serve every kind of model with what a plain ``pip install rankwright`` brings.

Run by ``make test-small`` in a virtual environment of its own, and by ``test_scorer.py`` with every
other library blocked. It needs NumPy, msgspec and lazy-loader only, so it does not use pytest.
"""

from __future__ import annotations

import json
import sys
from importlib.util import find_spec
from pathlib import Path

# Everything that the base install does not have.
OTHERS = ("cyclopts", "joblib", "narwhals", "numba", "pandas", "pooch", "rich", "safetensors",
          "scipy", "sklearn", "threadpoolctl")  # fmt: skip
MUSEUM = Path(__file__).parent / "museum"


def main(blocked: bool) -> int:
    if blocked:
        sys.modules.update(dict.fromkeys(OTHERS))  # type: ignore[arg-type]
    elif found := [name for name in OTHERS if find_spec(name)]:
        print(f"not a small install, it has {', '.join(found)}")
        return 2
    import numpy as np

    import rankwright as rw

    failed = 0
    paths = sorted(MUSEUM.glob("format-*/*.rw"))
    for path in paths:
        expected = json.loads(path.with_suffix(".json").read_text())
        scorer, X = rw.load_scorer(path), np.array(expected["X"])
        same = all(
            np.allclose(getattr(scorer, method)(X), expected[method], rtol=1e-12, atol=1e-12)
            for method in ("decision_function", "predict")
        )
        places = sorted(scorer.rank(X, np.zeros(len(X))).tolist())
        if not same or places != list(range(1, len(X) + 1)):
            print(f"{path.stem}: other scores than when it was written")
            failed += 1
    try:
        _ = rw.RankBoost
    except ModuleNotFoundError as error:
        failed += "pip install 'rankwright[train]'" not in str(error)
    else:
        failed += 1
    print(f"{len(paths) + 1 - failed} passed, {failed} failed")
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main("--blocked" in sys.argv))
