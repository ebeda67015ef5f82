"""The judges' table of the cystic fibrosis collection is read whole, or refused by its line."""

from __future__ import annotations

import numpy as np
import pytest

from rankwright.data.io.trec import read_judges
from rankwright.data.runs import Judgments
from rankwright.exceptions import DataError, FileFormatError, ParameterError

GOOD = "QN 00001\nQU What is\n   mucus?\nNR 00002\nRD  139 1222  151 2211\n\nQN 00002\nQU Why?\n"
TWO = GOOD + "NR 00001\nRD  139 0001\n"


def test_two_queries_are_read_with_their_words_and_scores(tmp_path):
    (tmp_path / "cfquery").write_text(TWO)
    judged = read_judges(tmp_path / "cfquery")
    assert judged.texts == ("What is mucus?", "Why?")
    assert judged.qid.tolist() == [1, 1, 2]
    assert judged.docs[judged.doc].tolist() == [139, 151, 139]
    assert judged.scores.tolist() == [[1, 2, 2, 2], [2, 2, 1, 1], [0, 0, 0, 1]]
    assert judged.by_query.sizes.tolist() == [2, 1]


def test_control_z_and_windows_line_ends_do_not_matter(tmp_path):
    (tmp_path / "cfquery").write_bytes(TWO.replace("\n", "\r\n").encode() + b"\x1a\x1a\x1a")
    assert len(read_judges(tmp_path / "cfquery")) == 3


@pytest.mark.parametrize(
    "tail, line, reason",
    [
        ("NR 00002\nRD  139 0001\n", 7, "has NR 2 but lists 1 pairs"),
        ("RD  139 0001\n", 7, "has no number of pairs (NR)"),
        ("NR 00001\n", 7, "has NR 1 but lists 0 pairs"),
        ("NR 00001\nRD  139 0003\n", 10, "expected a document number and scores"),
        ("NR 00001\nRD  139\n", 10, "expected a document number and scores"),
        ("NR 00001\nRD  139 0001x\n", 10, "expected a document number and scores"),
        ("NR 00001\nRD  139 001\n", 10, "document 139 has scores of 3 judges, not 4"),
        ("NR 00002\nRD  139 0001 139 0001\n", 10, "document 139 appears twice"),
        ("NR many\nRD  139 0001\n", 9, '"many" is not a whole number'),
        ("XX 1\n", 9, 'unknown field "XX"'),
        ("NR 00001\nRD  139 0001\nQN\n", 11, "is not a whole number"),
        ("NR 00001\nRD  139 0001\nQN 3\n   more\n", 12, "text after the number of the query"),
    ],
)
def test_a_bad_record_is_refused_by_its_line(tmp_path, tail, line, reason):
    (tmp_path / "cfquery").write_text(GOOD + tail)
    with pytest.raises(FileFormatError) as caught:
        read_judges(tmp_path / "cfquery")
    assert caught.value.line == line
    assert reason in caught.value.message


@pytest.mark.parametrize("text, reason", [("NR 1\n", "before the first QN"), ("\n", "empty")])
def test_a_file_without_a_query_is_refused(tmp_path, text, reason):
    (tmp_path / "cfquery").write_text(text)
    with pytest.raises(FileFormatError, match=reason):
        read_judges(tmp_path / "cfquery")


def test_each_judge_can_be_the_target_of_the_others():
    judged = Judgments([1], [7, 9], [0, 0], [0, 1], [[0, 1, 2], [2, 2, 1]])
    for judge in range(3):
        X, y = judged.against(judge)
        assert y.tolist() == judged.scores[:, judge].tolist()
        assert np.insert(X, judge, y, axis=1).tolist() == judged.scores.tolist()
    with pytest.raises(ParameterError, match=r"give one of 0 \.\. 2"):
        judged.against(3)


def test_pairs_that_do_not_fit_together_are_refused():
    with pytest.raises(DataError, match="query has 2 entries and doc 1"):
        Judgments([1], [7], [0, 0], [0], [[1]])
    with pytest.raises(DataError, match="one row per pair"):
        Judgments([1], [7], [0], [0], [1])
    with pytest.raises(DataError, match="appears in row 0 and again in row 1"):
        Judgments([1], [7], [0, 0], [0, 0], [[1], [2]])


def test_the_cystic_fibrosis_collection_has_the_counts_of_its_readme(real_data):
    judged = read_judges(real_data("cystic-fibrosis/cfquery.gz"))
    assert judged.scores.shape == (4819, 4)
    assert len(judged.queries) == 100
    assert np.bincount(judged.scores.ravel()).tolist() == [9347, 5467, 4462]
    sums = np.bincount(judged.to_qrels().grade)[1:].tolist()
    assert sums == [2280, 744, 251, 202, 250, 297, 330, 465]
