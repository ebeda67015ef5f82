"""Logs in files: every format gives the same log, with or without DuckDB."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rankwright.data import ImpressionLog, read_log
from rankwright.data.io.logs import impressions as logs
from rankwright.data.io.logs.features import read_log_features
from rankwright.exceptions import DataError, ParameterError

ROWS = [
    {"session": f"s{s}", "user": f"u{s % 2}", "query": f"q {s % 2}", "time": 100.5 + s,
     "position": k, "item": f"d{k}", "clicked": int(k == 2) * (1 + s % 2),
     "dwell": 3.5 if k == 2 else None}
    for s in range(6) for k in (1, 2, 3)
]  # fmt: skip


def same(first: ImpressionLog, second: ImpressionLog) -> bool:
    def rows(log: ImpressionLog) -> Any:
        ids = log.sessions[log.session], log.queries[log.query], log.items[log.item], log.user
        numbers = log.position, log.clicks, log.time, np.nan_to_num(log.dwell)
        return sorted(zip(*(np.asarray(c).tolist() for c in (*ids, *numbers)), strict=True))

    return bool(rows(first) == rows(second))


def write_csv(path: Path, separator: str = ",") -> Path:
    lines = [separator.join(ROWS[0])]
    lines += [separator.join("" if v is None else str(v) for v in row.values()) for row in ROWS]
    path.write_text("\n".join(lines) + "\n")
    return path


def write_parquet(path: Path) -> Path:
    duckdb = pytest.importorskip("duckdb")
    source = write_csv(path.with_suffix(".csv"))
    duckdb.sql(f"COPY (FROM '{source}') TO '{path}'")
    return path


@pytest.fixture
def plain(tmp_path: Path) -> ImpressionLog:
    return read_log(write_csv(tmp_path / "plain.csv"))


def test_csv_and_tsv(plain: ImpressionLog, tmp_path: Path) -> None:
    assert len(plain) == 18
    assert plain.clicks.sum() == 9
    assert same(plain, read_log(write_csv(tmp_path / "log.tsv", "\t")))


def test_json_lines(plain: ImpressionLog, tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    path.write_text("\n".join(map(json.dumps, ROWS)))
    assert same(plain, read_log(path))


def test_parquet_with_and_without_duckdb(
    plain: ImpressionLog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write_parquet(tmp_path / "log.parquet")
    assert same(plain, read_log(path))
    monkeypatch.setattr(logs, "find_spec", lambda name: None)
    assert same(plain, read_log(path))


def test_large_text_is_read_by_duckdb(
    plain: ImpressionLog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("duckdb")
    monkeypatch.setattr(logs, "_LARGE", 0)
    path = write_csv(tmp_path / "it's.csv")
    assert same(plain, read_log(path))
    path.write_text(path.read_text().replace("s3,u1,q 1", "s3,u1,"))
    with pytest.raises(DataError, match="query"):
        read_log(path)


def test_the_export_of_the_service(tmp_path: Path) -> None:
    lines: list[dict[str, Any]] = []
    for s in range(3):
        items = [{"id": f"d{k}", "rank": k, "score": -k} for k in (1, 2)]
        lines.append({"kind": "event", "event": s, "time": 10.0 + s, "query": "shoes", "user": "u",
                      "model": "v1", "items": items})  # fmt: skip
    lines.append({"kind": "feedback", "event": 1, "id": "f1", "time": 20, "clicks": ["d2"]})
    lines.append({"kind": "feedback", "event": 2, "id": "f2", "time": 21,
                  "clicks": [{"id": "d1", "dwell": 4.0}, "d1"]})  # fmt: skip
    lines.append({"kind": "feedback", "event": 0, "id": "f3", "time": 22, "grades": {"d1": 2}})
    lines.append({"kind": "judgment", "time": 23, "query": "shoes", "id": "d1", "grade": 2})
    path = tmp_path / "export.jsonl"
    path.write_text("\n".join(map(json.dumps, lines)))
    log = read_log(path)
    assert log.n_sessions == 3
    assert log.clicks.tolist() == [0, 0, 0, 1, 2, 0]
    assert log.ranker is not None
    assert set(log.ranker.tolist()) == {"v1"}
    assert log.dwell is not None
    assert log.dwell[4] == 4.0
    lines.append({"kind": "feedback", "event": 0, "id": "f4", "time": 23, "clicks": ["d9"]})
    path.write_text("\n".join(map(json.dumps, lines)))
    with pytest.raises(DataError, match="'d9' of event 0, which was not shown"):
        read_log(path)
    path.write_text('{"kind": "feedback", "event": 1, "clicks": []}')
    with pytest.raises(DataError, match="no event with shown items"):
        read_log(path)
    path.write_text('{"kind": "event", "event": 1}')
    with pytest.raises(DataError, match="lacks the field 'items'"):
        read_log(path)


def test_a_column_of_no_role_is_refused_by_every_reader_of_logs(tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    path.write_text("query,item,clicks,price\nq,a,1,9.5\n")
    frame = {"query": ["q"], "item": ["a"], "clicks": [1], "price": [9.5]}
    for call in (
        lambda: read_log(path, cost="price"),
        lambda: read_log_features(path, cost="price"),
        lambda: ImpressionLog.from_frame(frame, cost="price"),
    ):
        with pytest.raises(
            ParameterError, match="cost='price': a log has no cost; use one of session"
        ):
            call()


def test_words_and_dates_are_understood() -> None:
    log = ImpressionLog.from_frame(
        {
            "Query": ["q", "q", "q"],
            "doc_id": ["a", "b", "c"],
            "isClicked": ["yes", "FALSE", ""],
            "timestamp": ["2024-05-01T10:00:00Z"] * 3,
            "rank": [1, 2, 3],
        }
    )
    assert log.clicks.tolist() == [1, 0, 0]
    assert log.time is not None
    assert log.time[0] == 1714557600.0
    times = np.array(["2024-05-01T10:00:00"] * 2, dtype="datetime64[ns]")
    log = ImpressionLog.from_frame(
        {"query": [1, 1], "item": [1, 2], "clicks": [0, 1], "time": times}
    )
    assert log.time is not None
    assert log.time[0] == 1714557600.0


def test_columns_may_be_named(tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    path.write_text("suche,id,geklickt\nschuhe,1,0\nschuhe,2,1\n")
    assert read_log(path, query="suche", clicks="geklickt").clicks.tolist() == [0, 1]
    with pytest.raises(DataError, match="no column of query"):
        read_log(path)
    with pytest.raises(DataError, match="no column 'search'"):
        read_log(path, query="search")
    with pytest.raises(ParameterError, match="use one of session"):
        read_log(path, queries="suche")


def test_a_log_is_known_by_its_columns() -> None:
    assert logs.is_log(["session", "query", "position", "item", "clicked"])
    assert not logs.is_log(["query", "item", "clicked"])
    assert not logs.is_log(["query", "doc", "grade", "bm25"])
