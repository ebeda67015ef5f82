"""What `rw.validate` finds in data in memory; files are checked in tests/cli."""

from __future__ import annotations

import numpy as np
import pytest

import rankwright as rw
from rankwright.data.io.items import detect_kind
from rankwright.data.validation import Findings


def statuses(findings: Findings) -> dict[str, str]:
    return {finding.rule: finding.status for finding in findings}


def test_good_items_pass_every_rule():
    data = rw.data.make_queries(20, random_state=0).items
    findings = rw.validate(data)
    assert findings.ok
    assert set(statuses(findings).values()) == {"PASS"}
    assert str(findings).count("\n") == len(findings) - 1


def test_each_fault_of_items_has_a_finding():
    X = np.array([[0.0, 1.0, 2.0], [1.0, 1.0, 3.0], [1.0, 1.0, 3.0], [2.0, 1.0, 9.0]])
    items = rw.Items(X, [0, 1, 1, 2], qid=[1, 1, 1, 2], docid=["a", "b", "b", "c"])
    found = {finding.rule: finding for finding in rw.validate(items)}
    assert (found["ids"].status, found["ids"].line) == ("FAIL", 3)
    assert "line 2 already" in found["ids"].reason
    assert (found["queries"].status, found["queries"].line) == ("WARN", 4)
    assert (found["duplicates"].status, found["duplicates"].line) == ("WARN", 3)
    assert "feature 2" in found["constant features"].reason
    assert "feature 1 is the grade itself" in found["grade among the features"].reason
    assert all(finding.fix for finding in found.values() if finding.status != "PASS")


def test_items_shared_with_the_test_data_are_found():
    data = rw.data.make_queries(10, random_state=0).items
    train, test = data.take(data.qid < 6), data.take(data.qid >= 5)
    shared = rw.validate(train, against=test)[-1]
    assert (shared.status, "query 5 is in both" in shared.reason) == ("FAIL", True)
    assert rw.validate(train, against=data.take(data.qid >= 6)).ok


def test_each_fault_of_ratings_has_a_finding():
    rows = [("ann", "a", 5), ("ann", "a", 4), ("bob", "a", 3), ("eve", "a", 2), ("eve", "b", 2)]
    ratings = rw.Ratings.from_arrays(*map(list, zip(*rows, strict=True)), duplicates="keep")
    findings = rw.validate(ratings)
    assert not findings.ok
    assert statuses(findings) == {
        "pairs": "FAIL",
        "values": "PASS",
        "ratings per user": "WARN",
        "values differ per user": "WARN",
    }
    with pytest.raises(rw.ParameterError, match="compares items"):
        rw.validate(ratings, against=rw.Items([[1.0]], [1]))


@pytest.mark.parametrize(
    "text, kind",
    [
        ("user,item,rating\n1,2,3\n", "ratings"),
        ("userId,movieId,rating,timestamp\n1,2,3,4\n", "ratings"),
        ("user,item,rating,bm25\n1,2,3,4\n", "items"),
        ("qid,docid,rating\n1,2,3\n", "items"),
    ],
)
def test_a_table_of_user_item_rating_and_time_holds_ratings(tmp_path, text, kind):
    (tmp_path / "a.csv").write_text(text)
    assert detect_kind(tmp_path / "a.csv") == kind


def test_a_file_is_checked_without_its_bad_lines(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("qid,grade,a,b\n1,0,1,2\n1,x,2,3\n1,1,3\n2,0,4,1\n2,1,5,6\n1,1,9,2\n")
    findings = rw.validate(path)
    assert [finding.line for finding in findings.failed] == [3, 4]
    assert statuses(findings)["queries"] == "PASS"
