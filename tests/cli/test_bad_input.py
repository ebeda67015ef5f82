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
    "a feature the model lacks": ("a.txt", GOOD + "1 qid:1 9:1\n", 2, "9", LETOR),
    "UTF-16": ("a.txt", GOOD.encode("utf-16"), 1, "UTF-16", LETOR),
    "an empty file": ("a.txt", "", 1, "no items", LETOR),
    "gzip that was cut off": ("a.txt.gz", gzip.compress(GOOD.encode() * 999)[:-20], 1, "", LETOR),
    "a word in a table": ("a.csv", "qid,grade,a\n1,2,0.5\n1,0,much\n", 3, '"much"', ["info"]),
    "broken JSON": ("a.jsonl", '{"qid": 1, "grade": 2, "a": 1}\n{"qid"\n', 2, "JSON", ["info"]),
    "a score that is a word": ("a.run", "q1 Q0 d1 1 0.5 x\nq1 Q0 d2 2 high x\n", 2, "high", RUN),
    "half a grade": ("a.qrels", "q1 0 d1 1\nq1 0 d2 0.5\n", 2, "0.5", ["info"]),
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
