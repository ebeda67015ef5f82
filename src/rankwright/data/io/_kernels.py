"""The loop over the bytes of a large LETOR file."""

from __future__ import annotations

import numpy as np
from numba import njit

_MAX_DIGITS = 18  # the longest mantissa that always fits int64
_LOW = np.uint64(0xFFFFFFFF)
_HALF = np.uint64(32)
_ALL = np.uint64(0xFFFFFFFFFFFFFFFF)
_ONE = np.uint64(1)
_POWERS_OF_TEN = np.array([10.0**k for k in range(23)])  # exact as float64


def _powers_of_five():
    """The first 128 bits of 5**q for q = -342 .. 308, as pairs of 64 bits (high, low)."""
    table = np.empty((651, 2), dtype=np.uint64)
    for q in range(-342, 309):
        power = 5 ** abs(q)
        if q >= 0:
            bits = power << 128 >> power.bit_length()
        else:
            # Rounded up, as the proof of the algorithm asks of a reciprocal.
            z = (power - 1).bit_length()
            bits = (1 << (z + 127)) // power + 1 if q >= -27 else (1 << (2 * z + 128)) // power + 1
            bits >>= max(0, bits.bit_length() - 128)
        table[q + 342] = bits >> 64, bits & 0xFFFFFFFFFFFFFFFF
    return table


POWERS_OF_FIVE = _powers_of_five()


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
def _round_decimal(mantissa, exponent, powers, bits):
    """mantissa * 10**exponent correctly rounded, for 0 < mantissa < 2**63 (Lemire 2021).

    ``bits`` (1,) uint64 is where the result is put together. Returns (value, True), or
    (0.0, False) where the result may be subnormal or too large, or the 128 bits do not decide.

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
    high, low = _multiply(w, powers[exponent + 342, 0])
    if high & np.uint64(0x1FF) == np.uint64(0x1FF):
        more, _ = _multiply(w, powers[exponent + 342, 1])
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
    bits[0] = (fraction & np.uint64((1 << 52) - 1)) | (np.uint64(power) << np.uint64(52))
    return bits.view(np.float64)[0], True


@njit(cache=True, nogil=True)
def _read_digits(text, at, mantissa, n_digits):
    """Read digits into a mantissa of at most 18, leading zeros not counted.

    Returns (end, mantissa, n_digits, n_dropped): digits in all, and those after the 18th.
    """
    n_dropped = 0
    while 48 <= text[at] <= 57:
        if n_digits < _MAX_DIGITS:
            mantissa = mantissa * 10 + np.int64(text[at]) - 48
        else:
            n_dropped += 1
        if n_digits > 0 or text[at] != 48:
            n_digits += 1
        at += 1
    return at, mantissa, n_digits, n_dropped


@njit(cache=True, nogil=True)
def _read_exponent(text, at):
    """Read what follows an ``e``; returns (end, exponent), end = -1 where no digit follows."""
    minus = text[at] == 45
    if minus or text[at] == 43:
        at += 1
    power, start = np.int64(0), at
    while 48 <= text[at] <= 57:
        if power < 1000000000000:  # no line has zeros enough to bring more than that back
            power = power * 10 + np.int64(text[at]) - 48
        at += 1
    return (-1 if at == start else at), (-power if minus else power)


@njit(cache=True, nogil=True)
def _parse_number(text, at, powers, bits):
    """Read a decimal number that starts at ``at``.

    Returns (value, end, state): state 1 read and exactly rounded; 0 a number that float() must
    round, and that cannot overflow; -1 not for the kernel to judge.
    """
    negative = text[at] == 45
    if negative or text[at] == 43:
        at += 1
    start = at
    at, mantissa, n_digits, exponent = _read_digits(text, at, np.int64(0), 0)
    n_read = at - start
    if text[at] == 46:
        start = at + 1
        at, mantissa, n_digits, dropped = _read_digits(text, start, mantissa, n_digits)
        exponent -= at - start - dropped
        n_read += at - start
    if n_read == 0:
        return 0.0, at, -1
    if text[at] == 101 or text[at] == 69:
        at, power = _read_exponent(text, at + 1)
        if at < 0:
            return 0.0, at, -1
        exponent += power
    value, known = 0.0, mantissa == 0
    if known:
        pass
    elif mantissa <= 9007199254740992 and -22 <= exponent <= 22 and n_digits <= _MAX_DIGITS:
        # Both numbers are exact as float64, so one operation rounds once (Clinger 1990).
        value, known = np.float64(mantissa), True
        value = (
            value / _POWERS_OF_TEN[-exponent] if exponent < 0 else value * _POWERS_OF_TEN[exponent]
        )
    else:
        value, known = _round_decimal(mantissa, exponent, powers, bits)
        if known and n_digits > _MAX_DIGITS:
            above, known = _round_decimal(mantissa + 1, exponent, powers, bits)
            known = known and above == value
    if known:
        return -value if negative else value, at, 1
    return 0.0, at, (-1 if exponent + _MAX_DIGITS > 300 else 0)


@njit(cache=True, nogil=True)
def _skip_blanks(text, at):
    while text[at] == 32 or text[at] == 9:
        at += 1
    return at


@njit(cache=True, nogil=True)
def _ends_token(byte):
    return byte == 32 or byte == 10 or byte == 35 or byte == 9


@njit(cache=True, nogil=True)
def _find_docid(text, start, stop):
    """From and to of the id in a comment: what follows ``docid =``, else all but outer blanks."""
    while start < stop and (text[start] == 32 or text[start] == 9):
        start += 1
    while stop > start and (text[stop - 1] == 32 or text[stop - 1] == 9):
        stop -= 1
    if stop - start < 5 or text[start] != 100 or text[start + 1] != 111 or text[start + 2] != 99:
        return start, stop
    if text[start + 3] != 105 or text[start + 4] != 100:
        return start, stop
    word = _skip_blanks(text, start + 5)
    if text[word] != 61:
        return start, stop
    word = _skip_blanks(text, word + 1)
    if word >= stop:
        return start, stop
    end = word
    while end < stop and text[end] != 32 and text[end] != 9:
        end += 1
    return word, end


@njit(cache=True, nogil=True)
def _parse_comment(text, at, any_byte, span):
    """Find the newline after a comment that begins at ``at``, and the document id in it.

    span   (6,) int64   2 .. 5 are set: comment, document id

    Returns the place of the newline, or -1 where the line parser must judge.
    """
    end = at
    while text[end] != 10:
        if text[end] == 0 or text[end] == 13 or (text[end] > 127 and not any_byte):
            return -1
        end += 1
    span[2], span[3] = at, end
    span[4], span[5] = _find_docid(text, at, end)
    return end


@njit(cache=True, nogil=True)
def _parse_qid(text, at, any_byte, spans, row):
    """Read ``qid:<id>``; returns where it ends, or -1 where the line parser must judge.

    spans   (n_lines, 6) int64   0 .. 1 of the row are set: the id, or that of the row before
                                 where it is the same
    """
    if text[at] != 113 or text[at + 1] != 105 or text[at + 2] != 100 or text[at + 3] != 58:
        return -1
    start = at + 4
    at = start
    while (33 <= text[at] <= 126 or (text[at] > 127 and any_byte)) and text[at] != 35:
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
def _parse_value(text, at, powers, bits):
    """Read a number or NULL, as :func:`_parse_number`."""
    if text[at] == 78 and text[at + 1] == 85 and text[at + 2] == 76 and text[at + 3] == 76:
        return np.nan, at + 4, 1
    return _parse_number(text, at, powers, bits)


@njit(cache=True, nogil=True)
def _parse_features(
    text, at, powers, bits, indices, values, left, count, n_left, first, n_features
):
    """Read ``number:value`` up to a comment or the end of the line.

    Returns (end, count, n_left), end = -1 where the line parser must judge.
    """
    last = np.int64(-1)
    while text[at] != 10 and text[at] != 35:
        index, start = np.int64(0), at
        while 48 <= text[at] <= 57 and index < 10000000000:
            index = index * 10 + np.int64(text[at]) - 48
            at += 1
        index -= first
        if at == start or text[at] != 58 or index <= last or index >= n_features:
            return -1, count, n_left
        last = index
        indices[count] = index
        # Written out here, because calls would take longer than most numbers: up to 18 digits
        # with or without a point, and exact as float64 (Clinger 1990).
        begin = at + 1
        negative = text[begin] == 45
        start = begin + 1 if negative else begin
        at, stop, mantissa, n_decimals = start, start + 18, np.int64(0), 0
        while 48 <= text[at] <= 57 and at < stop:
            mantissa = mantissa * 10 + np.int64(text[at]) - 48
            at += 1
        n_digits = at - start
        if text[at] == 46:
            at += 1
            start, stop = at, at + 18 - n_digits
            while 48 <= text[at] <= 57 and at < stop:
                mantissa = mantissa * 10 + np.int64(text[at]) - 48
                at += 1
            n_decimals = at - start
        known = n_digits + n_decimals > 0 and _ends_token(text[at])
        value = 0.0
        if mantissa <= 9007199254740992:
            value = np.float64(mantissa) / _POWERS_OF_TEN[n_decimals]
        elif known:
            value, known = _round_decimal(mantissa, -n_decimals, powers, bits)
        if known:
            values[count] = -value if negative else value
        else:
            values[count], at, state = _parse_value(text, begin, powers, bits)
            if state < 0 or not _ends_token(text[at]):
                return -1, count, n_left
            if state == 0:
                left[n_left, 0], left[n_left, 1], left[n_left, 2] = begin, at, count
                n_left += 1
        count += 1
        while text[at] == 32 or text[at] == 9:
            at += 1
    return at, count, n_left


@njit(cache=True, nogil=True)
def parse_lines(
    text, state, powers, labels, ends, indices, values, spans, left,
    has_qid, first, n_features, any_qid, any_comment,
):  # fmt: skip
    """Read lines from ``state[0]`` on, until one that only the line parser can judge.

    text     (n_bytes,) uint8, ends with a newline
    state    (3,) int64: place in ``text``, rows, numbers left to float()     changed in place
    powers   (651, 2) uint64, POWERS_OF_FIVE
    labels   (n_lines,) float64                                              written
    ends     (n_lines + 1,) int64, where the values of each row end; ends[0] = 0   written
    indices  (n_values,) int32, columns from 0                               written
    values   (n_values,) float64                                             written
    spans    (n_lines, 6) int64, from and to of query id, comment, document id     written
    left     (n_values, 3) int64, numbers left to float(): from, to, which value   written
    has_qid, first, n_features   the rules of the line parser
    any_qid, any_comment         whether bytes above 127 are known to be good there

    A line that is not understood leaves no trace in the rows, and ``state[0]`` is its start; at
    the end of the text ``state[0]`` is its length.
    """
    bits = np.empty(1, dtype=np.uint64)
    at, row, n_left = state[0], state[1], state[2]
    while at < len(text):
        state[0], state[1], state[2] = at, row, n_left
        at = _skip_blanks(text, at)
        count, is_row = ends[row], text[at] != 10 and text[at] != 35
        spans[row] = 0
        if is_row:
            labels[row], at, known = _parse_number(text, at, powers, bits)
            if known != 1 or not _ends_token(text[at]):
                return
            at = _skip_blanks(text, at)
            if has_qid:
                at = _parse_qid(text, at, any_qid, spans, row)
                if at < 0:
                    return
                at = _skip_blanks(text, at)
            at, count, n_left = _parse_features(
                text, at, powers, bits, indices, values, left, count, n_left, first, n_features
            )
            if at < 0:
                return
        if text[at] == 35:
            at = _parse_comment(text, at + 1, any_comment, spans[row])
            if at < 0:
                return
        at += 1
        if is_row:
            row += 1
            ends[row] = count
    state[0], state[1], state[2] = at, row, n_left
