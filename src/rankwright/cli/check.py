"""``rankwright check``: look for mistakes in data before they become results."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from rankwright.cli.console import print_json
from rankwright.cli.files.items import TableOptions
from rankwright.cli.files.pipes import at_hand
from rankwright.cli.files.ratings import RatingsOptions, tell_kind

if TYPE_CHECKING:
    from rankwright.cli.linting.findings import Finding


EXIT_FAILED, EXIT_DATA = 1, 3


def check(
    data: str,
    /,
    *,
    against: str | None = None,
    strict: bool = False,
    json: bool = False,
    table: TableOptions = TableOptions(),  # noqa: B008
    reading: RatingsOptions = RatingsOptions(),  # noqa: B008
) -> None:
    """Look for mistakes in data: a line PASS, WARN or FAIL for each rule, with place and fix.

    Ends with exit code 3 if the file cannot be read, 1 if a rule failed, else 0.

    ```text
    rankwright check train.txt --against test.txt
    rankwright check train.csv --strict --json
    rankwright check ratings.csv --read-as ratings
    ```

    Parameters
    ----------
    data
        Items (LETOR, CSV, TSV, JSONL, Parquet), a TREC run or qrels, or ratings (told by
        columns of user, item, rating and time alone, else by --read-as ratings); - is standard
        input.
    against
        A second file, such as the test data: neither queries nor items may be in both.
    strict
        Warnings count as failures.
    json
        JSON instead of lines.
    """
    from rankwright.cli.linting.files import check_file

    with at_hand(data) as local:
        kind = tell_kind(local, table, reading)
        findings = check_file(local, kind, table, reading, against)
    failed = [f for f in findings if f.status == "FAIL" or (strict and f.status == "WARN")]
    if json:
        rows = [vars(finding) for finding in findings]
        print_json({"data": data, "passed": not failed, "findings": rows})
    else:
        for finding in findings:
            print(_line(finding, data))
        n_failed, n_rules = (len({f.rule for f in each}) for each in (failed, findings))
        print(f"{data}: {f'{n_failed} of {n_rules} rules failed' if failed else 'passed'}")
    if any(finding.rule == "readable" and finding.status == "FAIL" for finding in findings):
        sys.exit(EXIT_DATA)
    if failed:
        sys.exit(EXIT_FAILED)


def _line(finding: Finding, data: str) -> str:
    where = f"{data}:{finding.line}: " if finding.line is not None else ""
    fix = f"\n      fix: {finding.fix}" if finding.fix and finding.status != "PASS" else ""
    return f"{finding.status}  {finding.rule}: {where}{finding.reason}{fix}"
