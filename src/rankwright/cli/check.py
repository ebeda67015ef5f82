"""``rankwright check``: look for mistakes in data before they become results."""

from __future__ import annotations

import sys

from rankwright.cli.console import print_json
from rankwright.cli.files import TableOptions, at_hand, read_items, tell_format
from rankwright.cli.linting import Finding, check_against, check_items, line_numbers
from rankwright.data.items import Items
from rankwright.exceptions import DataError, FileFormatError

__all__ = ["check"]

EXIT_FAILED, EXIT_DATA = 1, 3
MOST_BAD_LINES = 20


def check(
    data: str,
    /,
    *,
    against: str | None = None,
    strict: bool = False,
    json: bool = False,
    table: TableOptions = TableOptions(),  # noqa: B008
) -> None:
    """Look for mistakes in data: a line PASS, WARN or FAIL for each rule, with place and fix.

    Ends with exit code 3 if the file cannot be read, 1 if a rule failed, else 0.

    ```text
    rankwright check train.txt --against test.txt
    rankwright check train.csv --strict --json
    ```

    Parameters
    ----------
    data
        Items (LETOR, CSV, TSV, JSONL, Parquet), a TREC run or qrels; - is standard input.
    against
        A second file, such as the test data: neither queries nor items may be in both.
    strict
        Warnings count as failures.
    json
        JSON instead of lines.
    """
    with at_hand(data) as local:
        kind = tell_format(local, table.read_as)
        if kind in ("run", "qrels"):
            findings = _judged(local, kind)
        else:
            findings = _items(local, kind, table, against)
    failed = [f for f in findings if f.status == "FAIL" or (strict and f.status == "WARN")]
    if json:
        rows = [vars(finding) for finding in findings]
        print_json({"data": data, "passed": not failed, "findings": rows})
    else:
        for finding in findings:
            print(_line(finding, data))
        word = "passed" if not failed else f"{len(failed)} of {len(findings)} rules failed"
        print(f"{data}: {word}")
    if any(finding.rule == "readable" and finding.status == "FAIL" for finding in findings):
        sys.exit(EXIT_DATA)
    if failed:
        sys.exit(EXIT_FAILED)


def _items(path: str, kind: str, table: TableOptions, against: str | None) -> list[Finding]:
    try:
        items = _tolerantly(path, kind, table)
    except FileFormatError as error:
        return [Finding("readable", "FAIL", error.reason, error.line, error.fix)]
    except DataError as error:
        return [Finding("readable", "FAIL", str(error))]
    findings = [
        Finding("readable", "FAIL", bad.reason, bad.line, "mend the line or leave it out")
        for bad in items.bad_lines[:MOST_BAD_LINES]
    ]
    if not findings:
        findings = [Finding("readable", "PASS", str(items))]
    lines = line_numbers(path, kind, items.n_items)
    findings += check_items(items, lines)
    if against is not None:
        other = read_items(against, table)
        findings.append(check_against(items, other, against, lines))
    return findings


def _tolerantly(path: str, kind: str, table: TableOptions) -> Items:
    """All bad lines of a LETOR file at once, not the first alone."""
    if kind != "letor":
        return read_items(path, table)
    from rankwright.data.letor import read_letor

    return read_letor(path, on_bad_line="skip", max_bad=10**9)


def _judged(path: str, kind: str) -> list[Finding]:
    from rankwright.data.trec import read_qrels, read_run

    try:
        found = read_run(path) if kind == "run" else read_qrels(path)
    except FileFormatError as error:
        return [Finding("readable", "FAIL", error.reason, error.line, error.fix)]
    return [Finding("readable", "PASS", str(found))]


def _line(finding: Finding, data: str) -> str:
    where = f"{data}:{finding.line}: " if finding.line is not None else ""
    fix = f"\n      fix: {finding.fix}" if finding.fix and finding.status != "PASS" else ""
    return f"{finding.status}  {finding.rule}: {where}{finding.reason}{fix}"
