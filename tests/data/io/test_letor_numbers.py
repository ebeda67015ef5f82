"""Both parsers read every number to the same bits as ``float``, and agree on any bytes at all."""

from __future__ import annotations

import io
import math
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from decimal import Context, Decimal
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import rankwright as rw
from rankwright.data.io.letor import reader as read
from rankwright.data.items import Items
from rankwright.exceptions import FileFormatError

DIGITS = st.text("0123456789", min_size=1, max_size=25)


@contextmanager
def parser(name: str, block: int = 2**20) -> Iterator[None]:
    """Read with one of the two parsers, whatever the size of the file."""
    before = read._LARGE, read._LARGE_COLD, read._BLOCK
    large = 0 if name == "kernel" else 2**62
    read._LARGE, read._LARGE_COLD, read._BLOCK = large, large, block
    try:
        yield
    finally:
        read._LARGE, read._LARGE_COLD, read._BLOCK = before


def read_numbers(tokens: list[str], name: str) -> np.ndarray:
    text = "".join(f"0 qid:1 1:{token}\n" for token in tokens)
    with parser(name):
        return rw.read_letor(io.StringIO(text), n_features=1).X[:, 0]


def assert_as_float(tokens: list[str], name: str) -> None:
    expected = np.array([float(token) for token in tokens])
    assert np.array_equal(read_numbers(tokens, name).view(np.int64), expected.view(np.int64))


@st.composite
def decimals(draw: st.DrawFn) -> str:
    """Any text of a finite number that the format allows."""
    sign = draw(st.sampled_from(["", "-", "+"]))
    whole = draw(st.one_of(st.just(""), DIGITS))
    point = draw(st.sampled_from(["", "."])) if whole else "."
    decimals = draw(DIGITS if not whole else st.one_of(st.just(""), DIGITS)) if point else ""
    exponent = draw(st.one_of(st.none(), st.integers(-345, 320)))
    mark = draw(st.sampled_from(["e", "E", "e+", "E0"])) if exponent is not None else ""
    if exponent is not None and exponent < 0:
        mark = "e"
    return sign + whole + point + decimals + mark + ("" if exponent is None else str(exponent))


finite_decimals = decimals().filter(lambda token: math.isfinite(float(token)))


@pytest.mark.parametrize("name", ["plain", "kernel"])
@given(st.lists(finite_decimals, min_size=1, max_size=30))
@settings(max_examples=50)
def test_any_decimal_is_rounded_as_float_does(name: str, tokens: list[str]) -> None:
    assert_as_float(tokens, name)


@pytest.mark.parametrize("name", ["plain", "kernel"])
def test_the_shortest_text_of_a_float_reads_back_as_that_float(name: str) -> None:
    bits = np.random.default_rng(0).integers(-(2**63), 2**63, 20_000, dtype=np.int64)
    values = bits.view(np.float64)
    assert_as_float([repr(value) for value in values[np.isfinite(values)].tolist()], name)


@given(st.lists(st.floats(1e-300, 1e300), min_size=1, max_size=30), st.integers(-1, 1))
def test_numbers_half_way_between_floats_are_rounded_to_even(
    values: list[float], nudge: int
) -> None:
    tokens = []
    for value in values:
        above = math.nextafter(value, math.inf)
        middle = (Fraction(value) + Fraction(above)) / 2
        exact = Context(prec=1200).divide(Decimal(middle.numerator), Decimal(middle.denominator))
        for digits in (exact, *(Context(prec=p).plus(exact) for p in (16, 17, 18, 19, 20, 25))):
            step = Decimal((0, (1,), digits.as_tuple().exponent - 1))
            tokens.append(str(Context(prec=1300).add(digits, nudge * step)))
    assert_as_float(tokens, "kernel")


@pytest.mark.parametrize("name", ["plain", "kernel"])
def test_powers_of_ten_and_their_neighbors_are_rounded_as_float_does(name: str) -> None:
    mantissas = ["1", "9", "9007199254740993", "123456789012345678", "999999999999999999", "0.1"]
    powers = range(-345, 309)
    tokens = [f"{m}e{p}" for m in mantissas for p in powers if math.isfinite(float(f"{m}e{p}"))]
    assert_as_float(tokens, name)


LINES = st.one_of(
    st.binary(max_size=40),
    st.text("0123456789:.-+eENUL qid#\t\r\n", max_size=40).map(str.encode),
    st.builds(
        b"%b%bqid:%b %b:%b%b".__mod__,
        st.tuples(
            st.sampled_from([b"0", b"1", b"-1", b"2.5", b"x"]),
            st.sampled_from([b" ", b"\t", b"  "]),
            st.sampled_from([b"1", b"2", b"a", b"", b"\xc3\xa9"]),
            st.sampled_from([b"1", b"2", b"0", b"01", b"-1"]),
            st.sampled_from([b"1", b"0.5", b"NULL", b"1e999", b"nan", b""]),
            st.sampled_from([b"", b" ", b" #docid = A", b" 3:4", b"\r", b" 1:1", b"#\xe9"]),
        ),
    ),
)


def outcome(text: bytes, name: str, block: int, **options: object) -> object:
    """What reading gives: columns as bytes and lists, or the error."""
    with parser(name, block):
        try:
            items = rw.read_letor(io.BytesIO(text), **options)
        except FileFormatError as error:
            return str(error)
    X = items.X.toarray() if items.is_sparse else items.X
    columns = [None if c is None else c.tolist() for c in (items.qid, items.docid, items.comment)]
    return X.shape, X.tobytes(), items.y.tobytes(), columns, items.bad_lines


@given(st.lists(LINES, max_size=12), st.sampled_from([32, 50, 2**20]))
@settings(max_examples=150)
@example([b"0 qid:1 1:1", b"1"], 2**20)
@example([b"0 1:1", b"0 1:0.5 2"], 2**20)
def test_the_two_parsers_agree_on_any_bytes(lines: list[bytes], block: int) -> None:
    text = b"\n".join(lines)
    for options in (
        {},
        {"on_bad_line": "quarantine", "comments": "keep"},
        {"on_bad_line": "skip", "max_bad": 2, "comments": "drop", "zero_based": True},
        {"on_bad_line": "skip", "n_features": 2, "dense": False},
    ):
        expected = outcome(text, "plain", 2**20, **options)
        assert outcome(text, "plain", block, **options) == expected
        assert outcome(text, "kernel", block, **options) == expected


rows = st.integers(1, 12)


@st.composite
def items(draw: st.DrawFn) -> Items:
    n, m = draw(rows), draw(st.integers(1, 6))
    number = st.floats(allow_infinity=False)
    X = np.array(draw(st.lists(st.lists(number, min_size=m, max_size=m), min_size=n, max_size=n)))
    y = draw(st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=n, max_size=n))
    name = st.text(st.characters(codec="utf-8", exclude_categories=["C", "Z"]), min_size=1)
    kind = draw(st.sampled_from(["none", "integers", "texts"]))
    choices = {"none": st.none(), "integers": st.integers(0, 2**63 - 1),
               "texts": name.filter(lambda q: "#" not in q and not q.isdigit())}  # fmt: skip
    qid = None if kind == "none" else draw(st.lists(choices[kind], min_size=n, max_size=n))
    docid = draw(st.lists(st.one_of(st.none(), name), min_size=n, max_size=n))
    return Items(X, y, qid, docid=docid if any(docid) else None)


@given(items(), st.sampled_from(["a.txt", "a.txt.gz"]), st.booleans(), st.booleans())
@settings(max_examples=60)
def test_what_is_written_reads_back_to_the_same_bits(
    tmp_path_factory: pytest.TempPathFactory,
    written: Items,
    file: str,
    zero_based: bool,
    sparse: bool,
) -> None:
    path = tmp_path_factory.getbasetemp() / file
    if sparse:
        from scipy.sparse import csr_array

        rw.write_letor(
            (csr_array(written.X), written.y, written.qid, written.docid),
            path,
            zero_based=zero_based,
        )
    else:
        rw.write_letor(written, path, zero_based=zero_based)
    for name in ("plain", "kernel"):
        with parser(name):
            found = rw.read_letor(path, zero_based=zero_based)
        assert found.X.shape == written.X.shape
        if sparse:
            assert np.array_equal(found.X, written.X, equal_nan=True)
        else:
            zeros_and_numbers = ~np.isnan(written.X)
            assert (np.isnan(found.X) == np.isnan(written.X)).all()
            assert (found.X.view(np.int64) == written.X.view(np.int64))[zeros_and_numbers].all()
        assert np.array_equal(found.y.view(np.int64), written.y.view(np.int64))
        for column in ("qid", "docid"):
            ours, theirs = getattr(found, column), getattr(written, column)
            assert (ours is None) == (theirs is None)
            assert ours is None or ours.tolist() == theirs.tolist()


def test_the_kernel_runs_without_compilation() -> None:
    numbers = ["1.2345678901234567e-5", "1234567890123456789012345678", "9007199254740993", "7"]
    code = f"""
import io, warnings
warnings.simplefilter("error")
import rankwright as rw
from rankwright.data.io.letor import reader as read
read._LARGE = read._LARGE_COLD = 0
text = "".join(f"1 qid:1 1:{{number}} #docid = A\\n" for number in {numbers} + ["0x1", "NULL"])
items = rw.read_letor(io.StringIO(text), on_bad_line="skip")
print(items.X[:, 0].tolist(), items.docid.tolist(), items.bad_lines[0].line)
"""
    environment = {**os.environ, "NUMBA_DISABLE_JIT": "1"}
    run = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True
    )
    expected = [*map(float, numbers), math.nan]
    assert run.stdout.strip() == f"{expected} {['A'] * 5} 5"
