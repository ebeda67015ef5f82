"""Logs of ten million rows: reading, and EM of the position-based model, beside DuckDB.

A million simulated sessions of ten items each go to a Parquet file, with ids of text. Each step
runs in a process of its own; memory is the peak of that process. The plain scan counts rows and
clicks by position in DuckDB; ``group`` counts them by query, item and position, which is what EM
needs; the third step makes numbers of all ids by enums, as ``read_log`` does by hashes. Set
RANKWRIGHT_LOG_ROWS for another size.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile

ROWS = int(os.environ.get("RANKWRIGHT_LOG_ROWS", 10_000_000))

WRITE = """
import duckdb
duckdb.sql('SET enable_progress_bar = false')
duckdb.sql('''SELECT setseed(0.5)''')
duckdb.sql(f'''COPY (
    SELECT 's' || (i // 10) AS session,
           'query ' || (hash(i // 10) % 5000) AS query,
           'item ' || ((hash(i // 10) % 5000) * 20 + hash(i) % 2 * 10 + i % 10) AS item,
           (i % 10 + hash(i // 10 + 7) % 10) % 10 + 1 AS position,
           (random() < 0.4 / ((i % 10 + hash(i // 10 + 7) % 10) % 10 + 1))::INT AS clicked
    FROM range({rows}) t(i)) TO '{path}' ''')
"""
STEPS = {
    "DuckDB, plain scan": """
import duckdb
duckdb.sql('SET enable_progress_bar = false')
duckdb.sql("SELECT position, count(*), sum(clicked) FROM '{path}' GROUP BY 1").fetchall()""",
    "DuckDB, group by query, item, position": """
import duckdb
duckdb.sql('SET enable_progress_bar = false')
duckdb.sql("SELECT query, item, position, count(*), sum(clicked) FROM '{path}' GROUP BY ALL"
           ).fetchnumpy()""",
    "DuckDB, scan + dictionary (enums of query, item, session)": """
import duckdb
duckdb.sql('SET enable_progress_bar = false')
for name in ("query", "item", "session"):
    duckdb.sql(f"CREATE TYPE t_{{name}} AS ENUM (SELECT DISTINCT {{name}} FROM '{path}')")
codes = ", ".join(f"enum_code({{name}}::t_{{name}})" for name in ("query", "item", "session"))
duckdb.sql(f"SELECT {{codes}}, position, clicked FROM '{path}'").fetchnumpy()""",
    "read_log": """
import rankwright as rw
log = rw.read_log('{path}')""",
    "read_log + PositionBasedModel": """
import rankwright as rw
log = rw.read_log('{path}')
now = time.perf_counter()
model = rw.feedback.PositionBasedModel().fit(log)
print(f"    EM alone {{time.perf_counter() - now:.1f}} s, {{model.n_iter_}} iterations")""",
    "read_log + harvest": """
import rankwright as rw
log = rw.read_log('{path}')
rw.feedback.estimate_propensities(log)""",
}
TIMED = """
import resource, time
start = time.perf_counter()
{step}
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
cpu = time.process_time()
print(f"    {{time.perf_counter() - start:.1f}} s, CPU {{cpu:.1f}} s, peak {{peak:,.0f}} MB")
"""


def run() -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "log.parquet")
        _python(WRITE.format(rows=ROWS, path=path))
        print(f"{ROWS:,} rows, {os.path.getsize(path) / 2**20:.0f} MB of Parquet")
        for name, step in STEPS.items():
            print(f"  {name}", flush=True)
            _python(TIMED.format(step=step.format(path=path)))


def _python(script: str) -> None:
    subprocess.run([sys.executable, "-c", script], check=True)
