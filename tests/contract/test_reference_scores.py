"""Every ranker, fitted again on the rows of its reference file, gives the scores in that file.

``make test-nojit`` runs this module with numba's JIT switched off, so every kernel also has to
give the same scores as plain Python.
"""

from __future__ import annotations

import json
import warnings
from typing import Any

import numpy as np
import pytest

from persist.make_museum import FORMAT, GRADES, MUSEUM, QID, models, rows_of

MODELS = dict(models())


@pytest.mark.parametrize("name", MODELS)
def test_a_fit_gives_the_scores_of_the_reference_file(name: str) -> None:
    model: Any = MODELS[name]
    expected = json.loads((MUSEUM / f"format-{FORMAT}" / f"{name}.json").read_text())
    rows, new_rows = rows_of(name)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # 24 rows: some solvers have reason to complain
        model.fit(rows, GRADES, **({} if hasattr(model, "steps") else {"qid": QID}))
        scores = model.decision_function(new_rows)
    np.testing.assert_allclose(scores, expected["decision_function"], rtol=1e-7, atol=1e-9)
