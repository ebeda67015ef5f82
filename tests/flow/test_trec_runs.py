"""From TREC files to the published figures."""

from __future__ import annotations

from collections.abc import Callable

import pytest

import rankwright as rw

PUBLISHED = {
    "pircRBa1": 0.3101,
    "fub03IeOLKe3": 0.2503,
    "UAmsT03RDesc": 0.2065,
    "oce03noXbmD": 0.1986,
    "NLPR03vb10": 0.1055,
}


def test_runs_of_trec_2003_have_their_published_average_precision(
    real_data: Callable[[str], object],
) -> None:
    real_data("trec-robust03")
    track = rw.load_dataset("trec-robust03")
    for name, published in PUBLISHED.items():
        aligned = rw.data.align(track.runs[name].in_single_precision(), track.qrels)
        scores = rw.evaluate(
            aligned.scores,
            aligned.y,
            aligned.qid,
            measures=["AP"],
            docid=aligned.docid,
            like="trec_eval",
        )
        assert scores["AP"] == pytest.approx(published, abs=6e-5)
