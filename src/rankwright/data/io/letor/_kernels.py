"""The loop over the bytes of a large LETOR file."""

from __future__ import annotations

from math import ldexp
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rankwright.runtime.kernels import njit

_TAB, _NEWLINE, _SPACE, _HASH, _PLUS, _MINUS, _POINT, _ZERO, _NINE, _COLON = b"\t\n #+-.09:"
_SMALL_E, _LARGE_E, _EQUALS, _CARRIAGE_RETURN = b"eE=\r"
_QID, _DOCID, _NULL = (np.frombuffer(word, np.uint8) for word in (b"qid:", b"docid", b"NULL"))
_MAX_DIGITS = 18  # the longest mantissa that always fits int64
_LOW = np.uint64(0xFFFFFFFF)
_HALF = np.uint64(32)
_ALL = np.uint64(0xFFFFFFFFFFFFFFFF)
_ONE = np.uint64(1)
_POWERS_OF_TEN = np.array([10.0**k for k in range(23)])  # exact as float64


class ParsedRows(NamedTuple):
    """Buffers for the rows of one block of lines; the kernel fills them from the start.

    labels    (n_lines,) float64
    ends      (n_lines + 1,) int64, where the values of each row end; ends[0] = 0
    indices   (n_values,) int32, columns from 0
    values    (n_values,) float64
    spans     (n_lines, 6) int64, start and end of the query id, the comment, the document id
    """

    labels: NDArray[Any]
    ends: NDArray[Any]
    indices: NDArray[Any]
    values: NDArray[Any]
    spans: NDArray[Any]


class Format(NamedTuple):
    """What a line must look like."""

    has_qid: bool
    first: int  # number of the first feature, 0 or 1
    n_features: int
    any_qid_byte: bool  # whether bytes above 127 are known to be valid in a query id
    any_comment_byte: bool  # ... and in a comment


def _powers_of_five():
    """The first 128 bits of 5**q for q = -342 .. 308, as pairs of 64 bits (high, low)."""
    table = np.empty((651, 2), dtype=np.uint64)
    for q in range(-342, 309):
        power = 5 ** abs(q)
        if q >= 0:
            bits = power << 128 >> power.bit_length()
        else:
            # Rounded up: the proof of the algorithm requires it of a reciprocal.
            z = (power - 1).bit_length()
            bits = (1 << (z + 127)) // power + 1 if q >= -27 else (1 << (2 * z + 128)) // power + 1
            bits >>= max(0, bits.bit_length() - 128)
        table[q + 342] = bits >> 64, bits & 0xFFFFFFFFFFFFFFFF
    return table


_POWERS_OF_FIVE = _powers_of_five()


@njit(cache=True, nogil=True)
def _multiply(a, b):
    """The high and the low 64 bits of the product of two uint64."""
    a_low, a_high = a & _LOW, a >> _HALF
    b_low, b_high = b & _LOW, b >> _HALF
    low = a_low * b_low
    middle = a_high * b_low + (low >> _HALF)
    cross = a_low * b_high + (middle & _LOW)
    high = a_high * b_high + (middle >> _HALF) + (cross >> _HALF)
    return high, ((cross & _LOW) << _HALF) | (low & _LOW)


@njit(cache=True, nogil=True)
def _round_decimal(mantissa, exponent):
    """mantissa * 10**exponent correctly rounded, for 0 < mantissa < 2**63 (Lemire 2021).

    Returns (value, True), or (0.0, False) where the result may be subnormal or too large, or where
    128 bits of the power do not decide the rounding.

    Reference: D. Lemire, "Number parsing at a gigabyte per second", Software: Practice and
    Experience 51(8), 2021, algorithm of section 5.
    """
    if exponent < -342 or exponent > 308:
        return 0.0, False
    zeros = 0
    w = np.uint64(mantissa)
    for step in (32, 16, 8, 4, 2, 1):
        if w >> np.uint64(64 - step) == np.uint64(0):
            w = w << np.uint64(step)
            zeros += step
    high, low = _multiply(w, _POWERS_OF_FIVE[exponent + 342, 0])
    if high & np.uint64(0x1FF) == np.uint64(0x1FF):
        more, _ = _multiply(w, _POWERS_OF_FIVE[exponent + 342, 1])
        if low > _ALL - more:
            low = more - (_ALL - low) - _ONE
            high = high + _ONE
        else:
            low = low + more
        if low == _ALL and (exponent < -27 or exponent > 55):
            return 0.0, False
    upper = high >> np.uint64(63)
    shift = upper + np.uint64(9)
    fraction = high >> shift
    # 217706 / 65536 is log2(10) as close as needed: the exponent of two of 10**exponent.
    power = ((217706 * exponent) >> 16) + 63 + np.int64(upper) - zeros + 1023
    if power <= 0:
        return 0.0, False
    if low <= _ONE and -4 <= exponent <= 23 and fraction & np.uint64(3) == _ONE:
        if fraction << shift == high:  # half way between two floats: round to even
            fraction = fraction & ~_ONE
    fraction = (fraction + (fraction & _ONE)) >> _ONE
    if fraction >= np.uint64(1 << 53):
        fraction = np.uint64(1 << 52)
        power += 1
    if power >= 2047:
        return 0.0, False
    return ldexp(np.float64(fraction), int(power - 1075)), True  # exact: it is not subnormal


@njit(cache=True, nogil=True)
def _read_digits(text, at, mantissa, n_digits):
    """Read digits into a mantissa of at most 18 digits, leading zeros not counted.

    Returns (end, mantissa, n_digits, n_dropped): all digits, and those after the 18th.
    """
    n_dropped = 0
    while _ZERO <= text[at] <= _NINE:
        if n_digits < _MAX_DIGITS:
            mantissa = mantissa * 10 + np.int64(text[at]) - _ZERO
        else:
            n_dropped += 1
        if n_digits > 0 or text[at] != _ZERO:
            n_digits += 1
        at += 1
    return at, mantissa, n_digits, n_dropped


@njit(cache=True, nogil=True)
def _read_exponent(text, at):
    """Read what follows an ``e``; returns (end, exponent), end = -1 where no digit follows."""
    minus = text[at] == _MINUS
    if minus or text[at] == _PLUS:
        at += 1
    power, start = np.int64(0), at
    while _ZERO <= text[at] <= _NINE:
        if power < 1000000000000:  # no line has enough zeros to make up for more
            power = power * 10 + np.int64(text[at]) - _ZERO
        at += 1
    return (-1 if at == start else at), (-power if minus else power)


@njit(cache=True, nogil=True)
def _parse_number(text, at):
    """Read a decimal number that starts at ``at``, correctly rounded.

    Returns (value, end), end = -1 where the line parser must decide.
    """
    negative = text[at] == _MINUS
    if negative or text[at] == _PLUS:
        at += 1
    start = at
    at, mantissa, n_digits, exponent = _read_digits(text, at, np.int64(0), 0)
    n_read = at - start
    if text[at] == _POINT:
        start = at + 1
        at, mantissa, n_digits, dropped = _read_digits(text, start, mantissa, n_digits)
        exponent -= at - start - dropped
        n_read += at - start
    if n_read == 0:
        return 0.0, -1
    if text[at] == _SMALL_E or text[at] == _LARGE_E:
        at, power = _read_exponent(text, at + 1)
        if at < 0:
            return 0.0, -1
        exponent += power
    if mantissa == 0:
        value, known = 0.0, True
    elif mantissa <= 9007199254740992 and -22 <= exponent <= 22 and n_digits <= _MAX_DIGITS:
        # Both numbers are exact as float64, so one operation rounds once (Clinger 1990).
        value, known = np.float64(mantissa), True
        value = (
            value / _POWERS_OF_TEN[-exponent] if exponent < 0 else value * _POWERS_OF_TEN[exponent]
        )
    else:
        value, known = _round_decimal(mantissa, exponent)
        if known and n_digits > _MAX_DIGITS:
            above, known = _round_decimal(mantissa + 1, exponent)
            known = known and above == value
    return -value if negative else value, at if known else -1


@njit(cache=True, nogil=True)
def _skip_blanks(text, at):
    while text[at] == _SPACE or text[at] == _TAB:
        at += 1
    return at


@njit(cache=True, nogil=True)
def _ends_token(byte):
    return byte == _SPACE or byte == _NEWLINE or byte == _HASH or byte == _TAB


@njit(cache=True, nogil=True)
def _starts_with(text, at, word):
    """Whether ``word`` is at this position; the newline at the end of the text bounds the loop."""
    for k in range(len(word)):
        if text[at + k] != word[k]:
            return False
    return True


@njit(cache=True, nogil=True)
def _find_docid(text, start, stop):
    """Start and end of the id in a comment: what follows ``docid =``, else all but outer blanks."""
    while start < stop and (text[start] == _SPACE or text[start] == _TAB):
        start += 1
    while stop > start and (text[stop - 1] == _SPACE or text[stop - 1] == _TAB):
        stop -= 1
    if not _starts_with(text, start, _DOCID):
        return start, stop
    word = _skip_blanks(text, start + len(_DOCID))
    if text[word] != _EQUALS:
        return start, stop
    word = _skip_blanks(text, word + 1)
    if word >= stop:
        return start, stop
    end = word
    while end < stop and text[end] != _SPACE and text[end] != _TAB:
        end += 1
    return word, end


@njit(cache=True, nogil=True)
def _parse_comment(text, at, any_byte, span):
    """Find the end of a comment that begins at ``at``, and the document id in it.

    span   (6,) int64; sets 2 .. 5, the comment and the document id

    Returns the position of the newline, or -1 where the line parser must decide.
    """
    end = at
    while text[end] != _NEWLINE:
        if text[end] == 0 or text[end] == _CARRIAGE_RETURN or (text[end] > 127 and not any_byte):
            return -1
        end += 1
    span[2], span[3] = at, end
    span[4], span[5] = _find_docid(text, at, end)
    return end


@njit(cache=True, nogil=True)
def _parse_qid(text, at, any_byte, spans, row):
    """Read ``qid:<id>``; returns where it ends, or -1 where the line parser must decide.

    spans   (n_lines, 6) int64; sets 0 and 1 of the row, the id. A row with the same id as the
            row before gets the span of that row, so that equal neighbors have equal spans.
    """
    if not _starts_with(text, at, _QID):
        return -1
    start = at + len(_QID)
    at = start
    while (33 <= text[at] <= 126 or (text[at] > 127 and any_byte)) and text[at] != _HASH:
        at += 1
    if at == start or not _ends_token(text[at]):
        return -1
    spans[row, 0], spans[row, 1] = start, at
    if row > 0 and spans[row - 1, 1] - spans[row - 1, 0] == at - start:
        before = spans[row - 1, 0]
        same = 0
        while same < at - start and text[before + same] == text[start + same]:
            same += 1
        if same == at - start:
            spans[row, 0], spans[row, 1] = before, before + same
    return at


@njit(cache=True, nogil=True)
def _parse_features(text, at, rows, count, first, n_features):
    """Read ``number:value`` up to a comment or the end of the line.

    Writes ``rows.indices`` and ``rows.values`` from ``count`` on. Returns (end, count), end = -1
    where the line parser must decide.
    """
    indices, values = rows.indices, rows.values
    last = np.int64(-1)
    while text[at] != _NEWLINE and text[at] != _HASH:
        index, start = np.int64(0), at
        while _ZERO <= text[at] <= _NINE and index < 10000000000:
            index = index * 10 + np.int64(text[at]) - _ZERO
            at += 1
        index -= first
        if at == start or text[at] != _COLON or index <= last or index >= n_features:
            return -1, count
        last = index
        indices[count] = index
        # Inlined, because a call would take longer than most numbers: up to 18 digits with or
        # without a point, exact as float64 (Clinger 1990). Anything else goes to _parse_number.
        begin = at + 1
        negative = text[begin] == _MINUS
        start = begin + 1 if negative else begin
        at, stop, mantissa, n_decimals = start, start + 18, np.int64(0), 0
        while _ZERO <= text[at] <= _NINE and at < stop:
            mantissa = mantissa * 10 + np.int64(text[at]) - _ZERO
            at += 1
        n_digits = at - start
        if text[at] == _POINT:
            at += 1
            start, stop = at, at + 18 - n_digits
            while _ZERO <= text[at] <= _NINE and at < stop:
                mantissa = mantissa * 10 + np.int64(text[at]) - _ZERO
                at += 1
            n_decimals = at - start
        known = n_digits + n_decimals > 0 and _ends_token(text[at])
        value = 0.0
        if mantissa <= 9007199254740992:
            value = np.float64(mantissa) / _POWERS_OF_TEN[n_decimals]
        elif known:
            value, known = _round_decimal(mantissa, -n_decimals)
        if known:
            values[count] = -value if negative else value
        else:
            if _starts_with(text, begin, _NULL):
                values[count], at = np.nan, begin + len(_NULL)
            else:
                values[count], at = _parse_number(text, begin)
            if at < 0 or not _ends_token(text[at]):
                return -1, count
        count += 1
        while text[at] == _SPACE or text[at] == _TAB:
            at += 1
    return at, count


@njit(cache=True, nogil=True)
def parse_lines(text, cursor, rows, line_format):
    """Read lines from ``cursor[0]`` on, up to one that only the line parser can judge.

    text         (n_bytes,) uint8, ends with a newline
    cursor       (2,) int64: position in ``text``, rows; changed in place
    rows         ParsedRows, written
    line_format  Format

    At the end of the text ``cursor[0]`` is its length. At a line that the kernel does not
    understand, ``cursor[0]`` is the start of that line, and no row holds anything of it.
    """
    at, row = cursor[0], cursor[1]
    while at < len(text):
        cursor[0], cursor[1] = at, row
        at = _skip_blanks(text, at)
        count, is_row = rows.ends[row], text[at] != _NEWLINE and text[at] != _HASH
        rows.spans[row] = 0
        if is_row:
            rows.labels[row], at = _parse_number(text, at)
            if at < 0 or not _ends_token(text[at]):
                return
            at = _skip_blanks(text, at)
            if line_format.has_qid:
                at = _parse_qid(text, at, line_format.any_qid_byte, rows.spans, row)
                if at < 0:
                    return
                at = _skip_blanks(text, at)
            at, count = _parse_features(
                text, at, rows, count, line_format.first, line_format.n_features
            )
            if at < 0:
                return
        if text[at] == _HASH:
            if not is_row and 65 <= text[at + 1] <= 90:  # a label such as #N/A, perhaps
                return
            at = _parse_comment(text, at + 1, line_format.any_comment_byte, rows.spans[row])
            if at < 0:
                return
        at += 1
        if is_row:
            row += 1
            rows.ends[row] = count
    cursor[0], cursor[1] = at, row
