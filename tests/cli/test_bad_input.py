"""Bad data: the file, the line, the reason and the fix, and exit code 3."""

from __future__ import annotations

import gzip

import pytest

GOOD = "2 qid:1 1:0.5 2:1 3:0 4:0\n"
LETOR = ["predict", "$F/model.rw"]
RUN = ["evaluate", "FILE", "$F/qrels.txt"]

# what is wrong -> (file name, content, line, a word of the reason, the command)
KINDS: dict[str, tuple[str, str | bytes, int, str, list[str]]] = {
    "a value that is a word": ("a.txt", GOOD + "1 qid:1 1:x\n", 2, '"x"', LETOR),
    "a label that is a word": ("a.txt", GOOD + "good qid:1 1:1\n", 2, '"good"', LETOR),
    "a line without qid": ("a.txt", GOOD + "1 1:1 2:1\n", 2, "qid", LETOR),
    "features out of order": ("a.txt", GOOD + GOOD + "1 qid:1 2:1 1:1\n", 3, "1", LETOR),
    "a feature twice": ("a.txt", "1 qid:1 1:1 1:2\n", 1, "1", LETOR),
    "feature number 0": ("a.txt", GOOD + "1 qid:1 0:1\n", 2, "0", LETOR),
    "a feature the model lacks": ("a.txt", GOOD + "1 qid:1 9:1\n", 2, "9", LETOR),
    "not a number": ("a.txt", GOOD + "1 qid:1 1:nan\n", 2, "nan", LETOR),
    "an infinite value": ("a.txt", GOOD + "1 qid:1 1:1e999\n", 2, "1e999", LETOR),
    "a NUL byte": ("a.txt", GOOD.encode() + b"1 qid:1 1:\x001\n", 2, "", LETOR),
    "UTF-16": ("a.txt", GOOD.encode("utf-16"), 1, "UTF-16", LETOR),
    "an empty file": ("a.txt", "", 1, "no items", LETOR),
    "gzip that was cut off": ("a.txt.gz", gzip.compress(GOOD.encode() * 999)[:-20], 1, "", LETOR),
    "a word in a table": ("a.csv", "qid,grade,a\n1,2,0.5\n1,0,much\n", 3, '"much"', ["info"]),
    "a short line in a table": ("a.csv", "qid,grade,a\n1,2,0.5\n1,0\n", 3, "2", ["info"]),
    "a table without lines": ("a.csv", "qid,grade,a\n", 2, "no line", ["info"]),
    "broken JSON": ("a.jsonl", '{"qid": 1, "grade": 2, "a": 1}\n{"qid"\n', 2, "JSON", ["info"]),
    "a feature missing": (
        "a.jsonl",
        '{"grade": 2, "features": [1, 2]}\n{"grade": 2, "features": [1]}\n',
        2,
        "1 numbers here and 2",
        ["info"],
    ),
    "NaN in JSON": ("a.jsonl", '{"grade": 2, "a": NaN}\n', 1, "NaN", ["info"]),
    "no field in JSON": ("a.jsonl", "{}\n", 1, "without fields", ["info"]),
    "a list in JSON": ("a.jsonl", "[1, 2]\n", 1, "not a JSON object", ["train"]),
    "a short line in a run": ("a.run", "q1 Q0 d1 1 0.5 x\nq1 Q0 d2 2 x\n", 2, "5", RUN),
    "a score that is a word": ("a.run", "q1 Q0 d1 1 0.5 x\nq1 Q0 d2 2 high x\n", 2, "high", RUN),
    "a document twice": ("a.run", "q1 Q0 d1 1 0.5 x\nq1 Q0 d1 2 0.4 x\n", 2, "d1", RUN),
    "two runs in one file": ("a.run", "q1 Q0 d1 1 0.5 x\nq1 Q0 d2 2 0.4 y\n", 2, '"y"', RUN),
    "half a grade": ("a.qrels", "q1 0 d1 1\nq1 0 d2 0.5\n", 2, "0.5", ["info"]),
    "a rating that is a word": ("a.csv", "user,item,rating\nu,i,five\n", 2, "five", ["recommend"]),
    "a rating given twice": (
        "a.csv", "user,item,rating\nu,i,5\nu,i,4\n", 3, "i", ["recommend"],
    ),
}  # fmt: skip


@pytest.mark.parametrize("kind", list(KINDS))
def test_bad_data_are_named_by_file_line_reason_and_fix(shell, tmp_path, kind):
    name, content, line, word, command = KINDS[kind]
    data = content.encode() if isinstance(content, str) else content
    (tmp_path / name).write_bytes(data)
    words = [name if word == "FILE" else word for word in command]
    done = shell(*words, *([] if name in words else [name]), code=3)
    assert f"{name}:{line}:" in done.stderr
    assert word in done.stderr
    assert "fix: " in done.stderr
    assert done.stdout == ""


def test_a_pipe_is_called_stdin_in_errors(shell):
    done = shell("predict", "$F/model.rw", "-", stdin=GOOD + "1 qid:1 1:x\n", code=3)
    assert "<stdin>:2:" in done.stderr


def test_standard_input_is_read_once(shell):
    assert "only one" in shell("predict", "-", "-", stdin=GOOD, code=2).stderr


def test_parquet_from_a_pipe_is_refused(shell):
    done = shell("info", "-", stdin=b"PAR1" + bytes(20) + b"PAR1", code=3)
    assert "Save it to a file" in done.stderr


def test_bad_lines_can_be_left_out(shell, tmp_path):
    (tmp_path / "a.txt").write_text(GOOD + "1 qid:1 1:x\n" + GOOD)
    done = shell("predict", "$F/model.rw", "a.txt", "--on-bad-line", "skip")
    assert len(done.stdout.split()) == 2


def test_data_with_one_grade_are_not_trained_on(shell, tmp_path):
    (tmp_path / "a.txt").write_text("1 qid:1 1:0.5\n1 qid:1 1:0.7\n")
    assert "no order to learn" in shell("train", "a.txt", code=3).stderr
    assert not (tmp_path / "model.rw").exists()
