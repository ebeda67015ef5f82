"""A short fuzzing run, the cases that failed once, and a fault at every call."""

from __future__ import annotations

import pytest

from fuzz.__main__ import check_faults, corpus, fuzz, run_case

pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.mark.parametrize(
    "target, name, data", [pytest.param(*case, id=case[1]) for case in corpus()]
)
def test_what_failed_once_fails_no_more(target, name, data, tmp_path):
    run_case(target, name, data, tmp_path)


def test_a_second_of_fuzzing_finds_nothing():
    counts, failures = fuzz(1 / 60, 7, None)
    assert failures == []
    assert counts.total() > 0


def test_a_fault_at_any_call_is_an_error_and_leaves_no_file():
    counts = check_faults()
    assert min(counts["fault: OSError"], counts["fault: MemoryError"]) > 50
