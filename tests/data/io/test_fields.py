"""Fields are read in columns and refused one by one: both ways must agree."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rankwright.data.io.fields import Fields, is_number, likely_separator, parse_csv, split_fields
from rankwright.data.io.files import Text
from rankwright.exceptions import FileFormatError

TOKENS = st.one_of(
    st.text("0123456789+-.eE", max_size=6),
    st.text("019 +-._nainfxXe\t\r\n\x1f\x0b\x85\xa0\u01fe\u0663\u2212", max_size=5),
    st.floats().map(repr),
    st.integers().map(str),
)


def column_of(tokens: list[str]) -> Fields:
    text = Text("a.txt", "\n".join(tokens).encode())
    return Fields(text, tokens, 1, np.arange(1, len(tokens) + 1), ",")


@settings(max_examples=200)
@given(st.lists(TOKENS, min_size=1, max_size=4), st.booleans())
def test_a_column_is_read_if_and_only_if_each_of_its_tokens_is_a_number(tokens, integer):
    good = [is_number(token, integer) for token in tokens]
    if all(good):
        kind = int if integer else float
        values = column_of(tokens).numbers(0, "value", integer)
        assert values.tolist() == [kind(token.strip()) for token in tokens]
    else:
        with pytest.raises(FileFormatError) as caught:
            column_of(tokens).numbers(0, "value", integer)
        assert caught.value.line == good.index(False) + 1


@pytest.mark.parametrize("letter", ["\u01fe", "\u22a2", "\u2500", "\u0663", "\uff11", "\u00b2"])
@pytest.mark.parametrize("integer", [True, False])
def test_letters_that_numpy_takes_for_digits_are_no_digits(letter, integer):
    with pytest.raises(FileFormatError, match="is not a"):
        column_of([f"1{letter}"]).numbers(0, "value", integer)


def test_gaps_become_nan_where_they_are_allowed():
    fields = column_of(["1", "NA", "3"])
    assert np.isnan(fields.numbers(0, "value", missing={"NA"})).tolist() == [False, True, False]


@given(
    st.lists(
        st.lists(st.text("ab\xa0\u2003", min_size=1, max_size=3), min_size=3, max_size=3),
        min_size=1,
    )
)
def test_fields_between_blanks_come_back_in_rows(rows):
    text = Text("a.txt", "\n\n".join(" \t".join(row) for row in rows).encode())
    fields = split_fields(text, None, 3, "three words")
    assert fields.tokens == [token for row in rows for token in row]
    assert fields.lines.tolist() == [1 + 2 * row for row in range(len(rows))]


@pytest.mark.parametrize(
    "line, expected", [("a,b;c,d", ","), ("a;b", ";"), ("a\tb", "\t"), ("a|b", "|"), ("a b", None)]
)
def test_the_separator_is_the_most_frequent_sign_of_the_first_line(line, expected):
    assert likely_separator(Text("a.csv", line.encode())) == expected


def test_a_row_of_quoted_fields_knows_the_line_it_began_in():
    fields = parse_csv(Text("a.csv", b'a,"b\nb",c\nd,e,x\n'), ",", "three words")
    assert fields.tokens == ["a", "b\nb", "c", "d", "e", "x"]
    assert fields.lines.tolist() == [1, 3]
    with pytest.raises(FileFormatError, match=r"a\.csv:3:5: value"):
        fields.after_header().numbers(2, "value")
