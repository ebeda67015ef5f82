"""The items of a JSON body as a table of numbers, compiled.

text    (n_bytes,) uint8, read-only: the body. Its last byte is "}", so a loop that stops at
        anything but what it reads needs no check of the end; a loop over a string does.
at      where to read, uint64: an index with a sign costs a check for negative ones

Functions return the end of what they read, and 0 for whatever they do not read: other forms of
items, errors, and the rare numbers that need more than 128 bits. The caller then decodes the body
in the usual way.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numba import njit

QUOTE, BACKSLASH, COMMA, COLON, POINT, PLUS, MINUS, ZERO = (ord(c) for c in '"\\,:.+-0')
OPEN_LIST, CLOSE_LIST, OPEN, CLOSE, SMALL_E = (ord(c) for c in "[]{}e")
SPACE, TAB, LINE_FEED, RETURN = (ord(c) for c in " \t\n\r")
ID, FEATURES = (np.frombuffer(name, np.uint8) for name in (b'"id"', b'"features"'))
MOST_DIGITS = 19  # of a mantissa: 10^19 < 2^64
EXACT = 22  # 10^22 is the largest power of ten that a float64 holds exactly
LEAST_POWER, MOST_POWER = -120, 80
LOW32, ALL64 = np.uint64(0xFFFFFFFF), np.uint64(0xFFFFFFFFFFFFFFFF)
U0, U1, U2, U3, U8, U9, U10 = (np.uint64(n) for n in (0, 1, 2, 3, 8, 9, 10))
U32, U53, U63 = (np.uint64(n) for n in (32, 53, 63))


def _scaled_five(power: int) -> int:
    """5^power times a power of two, in [2^127, 2^128): cut off, or rounded up down to 5^-27."""
    five = 5 ** abs(power)
    if power >= 0:
        return five << 128 >> five.bit_length()
    if power >= -27:
        return (1 << (127 + five.bit_length())) // five + 1
    scaled = (1 << (2 * five.bit_length() + 128)) // five + 1
    return scaled >> (scaled.bit_length() - 128)


_FIVES = [_scaled_five(power) for power in range(LEAST_POWER, MOST_POWER + 1)]
FIVES_HIGH = np.array([five >> 64 for five in _FIVES], np.uint64)
FIVES_LOW = np.array([five % 2**64 for five in _FIVES], np.uint64)
ZEROS, EACH = np.uint64(0x3030303030303030), np.uint64(0x0101010101010101)  # in every byte
PAIRS = np.uint64(0x000000FF000000FF)
SECOND = np.uint64(0x8000)  # the highest bit of the second byte
MOST_SHORT = np.uint64(6)  # decimals that fit into eight bytes with a digit and the point
WHOLE_TENS = np.array([10**power for power in range(9)], np.uint64)
TENS = np.array([10.0**power for power in range(EXACT + 1)])


class Table(NamedTuple):
    """What is written: ids and names as JSON arrays without their last byte, values row by row."""

    ids: np.ndarray  # (n_bytes,) uint8
    names: np.ndarray  # (n_bytes,) uint8
    values: np.ndarray  # (n_bytes // 2 + 1,) float64


@njit(cache=True, nogil=True)
def _product(a, b):
    """The high and the low half of a * b."""
    a1, a0, b1, b0 = a >> U32, a & LOW32, b >> U32, b & LOW32
    low = a0 * b0
    middle = a1 * b0 + (low >> U32)
    other = a0 * b1 + (middle & LOW32)
    return a1 * b1 + (middle >> U32) + (other >> U32), (other << U32) | (low & LOW32)


@njit(cache=True, nogil=True)
def nearest(mantissa, power):
    """The float64 nearest to mantissa * 10^power; NaN where it is not found.

    Eisel and Lemire's method: the product with a power of five of 128 bits decides the rounding
    (D. Lemire, "Number parsing at a gigabyte per second", Software: Practice and Experience 2021).
    """
    if power < LEAST_POWER or power > MOST_POWER or mantissa == U0:
        return np.nan
    shift = 0
    while not mantissa >> U63:
        mantissa <<= U1
        shift += 1
    high, low = _product(mantissa, FIVES_HIGH[power - LEAST_POWER])
    if high & np.uint64(0x1FF) == np.uint64(0x1FF):
        more, _ = _product(mantissa, FIVES_LOW[power - LEAST_POWER])
        if low > ALL64 - more:
            high += U1
            low -= ALL64 - more + U1
        else:
            low += more
    if low == ALL64 and (power < -27 or power > 55):
        return np.nan
    upper = high >> U63
    cut = upper + U9
    fraction = high >> cut
    exponent = ((217706 * power) >> 16) + np.int64(upper) - shift + 11
    if low <= U1 and -4 <= power <= 23 and fraction & U3 == U1 and fraction << cut == high:
        fraction -= U1  # halfway between two numbers: the even one
    fraction = (fraction + (fraction & U1)) >> U1
    return math.ldexp(np.float64(fraction), exponent)


@njit(cache=True, nogil=True, forceinline=True)
def _read_digits(text, at, mantissa):
    """Where the digits end, and the mantissa with them, modulo 2^64."""
    digit = np.uint8(text[at] - ZERO)
    while digit < 10:
        mantissa = mantissa * U10 + np.uint64(digit)
        at += U1
        digit = np.uint8(text[at] - ZERO)
    return at, mantissa


@njit(cache=True, nogil=True, forceinline=True)
def _eight_bytes(text, at):
    """Eight bytes as one number, the first one lowest; LLVM makes one load of it."""
    word = np.uint64(text[at])
    for i in range(1, 8):
        word |= np.uint64(text[at + np.uint64(i)]) << np.uint64(8 * i)
    return word


@njit(cache=True, nogil=True, forceinline=True)
def _value_of_eight(digits):
    """The number that eight bytes of digits 0 to 9 write, the first one lowest."""
    digits = digits * U10 + (digits >> U8)
    low, high = digits & PAIRS, (digits >> np.uint64(16)) & PAIRS
    return (low * np.uint64(0x000F424000000064) + high * np.uint64(0x0000271000000001)) >> U32


@njit(cache=True, nogil=True, forceinline=True)
def _not_digits(digits):
    """The highest bit of each byte above 9; those of bytes after the first one may be wrong."""
    return ((digits + np.uint64(0x7676767676767676)) | digits) & np.uint64(0x8080808080808080)


@njit(cache=True, nogil=True, forceinline=True)
def _read_fraction(text, at, mantissa):
    """The same as :func:`_read_digits`, eight digits at once (Lemire, as above)."""
    while at + U9 <= np.uint64(text.size):
        digits = _eight_bytes(text, at) ^ ZEROS
        others = _not_digits(digits)
        if others != U0:
            below = (others & (~others + U1)) - U1  # the bits below the first byte of no digit
            n_digits = (((below & EACH) * EACH) >> np.uint64(56)) - U1
            if n_digits:
                digits <<= np.uint64(64) - (n_digits << U3)
                mantissa = mantissa * WHOLE_TENS[n_digits] + _value_of_eight(digits)
            return at + n_digits, mantissa
        mantissa = mantissa * WHOLE_TENS[8] + _value_of_eight(digits)
        at += U8
    return _read_digits(text, at, mantissa)


@njit(cache=True, nogil=True)
def _n_leading(text, at):
    """The number of zeros before the first other digit."""
    n_zeros = 0
    while text[at] == ZERO or text[at] == POINT:
        n_zeros += text[at] == ZERO
        at += U1
    return n_zeros


@njit(cache=True, nogil=True)
def _read_power(text, at):
    """Where the digits after "e" end, and their value."""
    negative = text[at] == MINUS
    if negative or text[at] == PLUS:
        at += U1
    end, value = _read_digits(text, at, U0)
    power = -np.int64(value) if negative else np.int64(value)
    return (end if U0 < end - at < U9 else U0), power


@njit(cache=True, nogil=True, forceinline=True, error_model="numpy")
def _read_short(text, at, n_decimals):
    """Where a digit, the point and so many decimals end, and their value; 0 if there is more."""
    digits, end = _eight_bytes(text, at) ^ ZEROS, at + U2 + n_decimals
    others = (_not_digits(digits) ^ SECOND) << (np.uint64(48) - (n_decimals << U3))
    ends = text[end] == COMMA or text[end] == CLOSE_LIST
    if others != U0 or text[at + U1] != POINT or not ends:
        return U0, 0.0
    decimals = _value_of_eight(digits >> np.uint64(16) << (np.uint64(64) - (n_decimals << U3)))
    mantissa = (digits & np.uint64(255)) * WHOLE_TENS[n_decimals] + decimals
    return end, np.float64(mantissa) / TENS[n_decimals]


@njit(cache=True, nogil=True, forceinline=True, error_model="numpy")
def read_number(text, at, n_short):
    """Where a JSON number ends, its value, and the decimals of a short number, or ``n_short``.

    n_short     decimals of the longest short number before it, or 0. Most numbers have as many: the
                processor guesses that this one has, and reads the next one while it reads this.
    """
    negative = text[at] == MINUS
    if negative:
        at += U1
    if n_short and at + U10 <= np.uint64(text.size):
        end, value = _read_short(text, at, n_short)
        if end:
            return end, -value if negative else value, n_short
    start, power, whole = at, 0, True
    at, mantissa = _read_digits(text, at, U0)
    n_digits = np.int64(at - start)
    if n_digits == 0 or (text[start] == ZERO and n_digits > 1):
        return U0, 0.0, n_short
    if text[at] == POINT:
        point, whole = at + U1, False
        at, mantissa = _read_fraction(text, point, mantissa)
        power = -np.int64(at - point)
        n_digits -= power
        if n_short < at - point <= MOST_SHORT:
            n_short = at - point
        if power == 0:
            return U0, 0.0, n_short
    if n_digits > MOST_DIGITS and n_digits - _n_leading(text, start) > MOST_DIGITS:
        return U0, 0.0, n_short
    if text[at] | 0x20 == SMALL_E:
        at, given = _read_power(text, at + U1)
        power, whole = power + given, False
    if -EXACT <= power <= EXACT and mantissa >> U53 == U0:
        value = np.float64(mantissa)
        value = value / TENS[-power] if power < 0 else value * TENS[power]
        negative = negative and not (whole and mantissa == U0)  # the integer -0 is 0
    else:
        value = nearest(mantissa, power)
        at = U0 if value != value else at
    return at, -value if negative else value, n_short


@njit(cache=True, nogil=True, forceinline=True)
def _skip(text, at):
    """Where white space ends."""
    while text[at] <= SPACE and (
        text[at] == SPACE or text[at] == LINE_FEED or text[at] == RETURN or text[at] == TAB
    ):
        at += U1
    return at


@njit(cache=True, nogil=True)
def _end_of_string(text, at):
    """Where the string that begins at the quote ``at`` ends."""
    last = np.uint64(text.size - 1)
    at += U1
    while at < last and text[at] != QUOTE:
        at += U2 if text[at] == BACKSLASH else U1
    return at + U1 if at < last else U0


@njit(cache=True, nogil=True, forceinline=True)
def _after_colon(text, at):
    at = _skip(text, at)
    return _skip(text, at + U1) if text[at] == COLON else U0


@njit(cache=True, nogil=True, forceinline=True)
def _read_key(text, at, key):
    """Where the value of a key begins."""
    at = _skip(text, at)
    for byte in key:
        if text[at] != byte:
            return U0
        at += U1
    return _after_colon(text, at)


@njit(cache=True, nogil=True)
def _copy(text, start, end, out, size):
    """Append text[start:end] and a comma; the size then."""
    while start < end:
        out[size] = text[start]
        start += U1
        size += U1
    out[size] = COMMA
    return size + U1


@njit(cache=True, nogil=True)
def _read_id(text, at, ids, size):
    """Where the id ends, and the size of ``ids`` with it."""
    if text[at] == QUOTE:
        end = _end_of_string(text, at)
    else:
        end, _ = _read_digits(text, at + (U1 if text[at] == MINUS else U0), U0)
    if end <= at:
        return U0, size
    return end, _copy(text, at, end, ids, size)


@njit(cache=True, nogil=True)
def _first_name(text, at, names, size):
    """Where a name of the first item ends, and the size of ``names`` with it."""
    end = _end_of_string(text, at) if text[at] == QUOTE else U0
    for byte in text[at:end]:
        if byte == BACKSLASH:
            return U0, size
    return end, (_copy(text, at, end, names, size) if end else size)


@njit(cache=True, nogil=True, forceinline=True)
def _same_name(text, at, names, size):
    """The same for an item that repeats the names: from one quote to the next, none is escaped."""
    n_quotes, last = 0, np.uint64(text.size - 1)
    while n_quotes < 2:
        if text[at] != names[size] or at == last:
            return U0, size
        n_quotes += text[at] == QUOTE
        at += U1
        size += U1
    return at, size + U1


@njit(cache=True, nogil=True)
def _read_values(text, at, names, size, values, n_values):
    """Read the features of an item, which begin at ``at``.

    size    of the names of the items before; 0 for the first item

    Returns where they end, the size of the names, and the number of values so far.
    """
    failed = U0, U0, U0
    named, first, n_bytes, n_short = text[at] == OPEN, size == U0, U1, U0
    if not named and text[at] != OPEN_LIST:
        return failed
    while True:
        at = _skip(text, at + U1)
        if named:
            if first:
                at, n_bytes = _first_name(text, at, names, n_bytes)
            else:
                at, n_bytes = _same_name(text, at, names, n_bytes)
            at = _after_colon(text, at) if at else U0
            if at == U0:
                return failed
        at, value, n_short = read_number(text, at, n_short)
        if at == U0:
            return failed
        values[n_values] = value
        n_values += U1
        at = _skip(text, at)
        if text[at] != COMMA:
            break
    if text[at] != (CLOSE if named else CLOSE_LIST) or at == np.uint64(text.size - 1):
        return failed
    return (at + U1, n_bytes, n_values) if first or n_bytes == size else failed


@njit(cache=True, nogil=True)
def _read_item(text, at, ids, size):
    """Where the features of an item begin, and the size of ``ids`` with its id."""
    at = _skip(text, at)
    at = _read_key(text, at + U1, ID) if text[at] == OPEN else U0
    if at:
        at, size = _read_id(text, at, ids, size)
    if at:
        at = _skip(text, at)
        at = _read_key(text, at + U1, FEATURES) if text[at] == COMMA else U0
    return at, size


@njit(cache=True, nogil=True)
def read_items(text, start, table):
    """Read [{"id": ..., "features": [...] or {...}}, ...], which begins at ``start``.

    Returns n_items, n_features, where the array ends, the size of the ids and that of the names.
    n_items is 0 if there are none, if they have another form, or if they differ in it.
    """
    ids, names, values = table
    at, last = np.uint64(start), np.uint64(text.size - 1)
    n_items, n_features, n_values, n_ids, n_names = 0, U0, U0, U1, U0
    failed = (0, U0, U0, U0, U0)
    ids[0] = names[0] = OPEN_LIST
    while True:
        at, n_ids = _read_item(text, at + U1, ids, n_ids)
        if at == U0:
            return failed
        before = n_values
        at, n_names, n_values = _read_values(text, at, names, n_names, values, n_values)
        if at == U0 or (n_items > 0 and n_values - before != n_features):
            return failed
        n_features, n_items = n_values - before, n_items + 1
        at = _skip(text, at)
        if text[at] != CLOSE or at == last:
            return failed
        at = _skip(text, at + U1)
        if text[at] == CLOSE_LIST:
            return n_items, n_features, at + U1, n_ids, n_names
        if text[at] != COMMA:
            return failed


@njit(cache=True, nogil=True, error_model="numpy")
def pack_millionths(values, packed, short):
    """Write values as whole millionths; 0 if that does not keep every bit, else 3 or 4 bytes.

    values  (n,) float64
    packed  (n,) int32, changed
    short   (3 * n,) uint8, changed: the three low bytes of each, for an answer of 3
    """
    exact, largest = True, 0
    for i in range(values.size):
        x = values[i]
        scaled = np.rint(x * 1e6)
        packed[i] = np.int32(scaled)
        again = np.float64(packed[i]) / 1e6
        exact &= again == x and (x != 0 or math.copysign(1.0, x) > 0)
        largest |= abs(np.int64(packed[i]))
    if not exact or largest >> 23:
        return 4 if exact else 0
    for i in range(values.size):
        short[3 * i] = packed[i] & 255
        short[3 * i + 1] = (packed[i] >> 8) & 255
        short[3 * i + 2] = (packed[i] >> 16) & 255
    return 3
