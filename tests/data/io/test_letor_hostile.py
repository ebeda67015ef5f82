"""Hostile LETOR files: each is refused at the right line and column, or read as documented.

A caret in a bad file marks the place of the error and is taken out before reading.
"""

from __future__ import annotations

import gzip
import io
import math
from typing import NamedTuple

import numpy as np
import pytest

import rankwright as rw
from rankwright.data.io.files import MAX_LINE
from rankwright.data.io.letor import reader as read
from rankwright.exceptions import DataError, FileFormatError

NAN = math.nan
GOOD = b"1 qid:1 1:0.5 2:1\n"


class Bad(NamedTuple):
    """A file with a caret where the error is, and part of the reason."""

    text: bytes
    reason: str
    options: dict[str, object] = {}  # noqa: RUF012


class Fine(NamedTuple):
    """A file that looks odd, and its content."""

    text: bytes
    X: list[list[float]]
    y: list[float]
    qid: list[object] | None = None
    docid: list[str | None] | None = None
    options: dict[str, object] = {}  # noqa: RUF012


BAD = {
    # nothing to read
    "empty": Bad(b"^", "no items"),
    "only a newline": Bad(b"^\n", "no items"),
    "only blanks": Bad(b"^  \n\t\n", "no items"),
    "only comments": Bad(b"^# a\n#b\n", "no items"),
    "only a byte order mark": Bad(b"^\xef\xbb\xbf", "no items"),
    "only CRLF": Bad(b"^\r\n\r\n", "no items"),
    "no features at all": Bad(b"^1 qid:1\n2 qid:1\n", "no line of the file has a feature"),
    "a file of group sizes": Bad(b"^12\n7\n9\n", "no line of the file has a feature"),
    # labels
    "label is text": Bad(GOOD + b"^good qid:1 1:1\n", 'label "good" is not a number'),
    "label is missing before qid": Bad(GOOD + b"^qid:1 1:1\n", "label is missing"),
    "label is missing before a feature": Bad(b"1 1:1\n^1:0.5 2:1\n", "label is missing"),
    "label is nan": Bad(GOOD + b"^nan qid:1 1:1\n", 'label "nan" is not finite'),
    "label is NaN": Bad(GOOD + b"^NaN qid:1 1:1\n", "not finite"),
    "label is inf": Bad(GOOD + b"^inf qid:1 1:1\n", "not finite"),
    "label is -inf": Bad(GOOD + b"^-inf qid:1 1:1\n", "not finite"),
    "label is Infinity": Bad(GOOD + b"^Infinity qid:1 1:1\n", "not finite"),
    "label overflows": Bad(GOOD + b"^1e999 qid:1 1:1\n", "too large"),
    "label is NULL": Bad(GOOD + b"^NULL qid:1 1:1\n", "not a number"),
    "label is hexadecimal": Bad(GOOD + b"^0x1 qid:1 1:1\n", "hexadecimal"),
    "label has an underscore": Bad(GOOD + b"^1_0 qid:1 1:1\n", "not a number"),
    "label has a comma": Bad(GOOD + b"^1,5 qid:1 1:1\n", "not a number"),
    "several labels": Bad(GOOD + b"^1,2 qid:1 1:1\n", "not a number"),
    "label is a sign": Bad(GOOD + b"^- qid:1 1:1\n", "not a number"),
    "label is a point": Bad(GOOD + b"^. qid:1 1:1\n", "not a number"),
    "label is a bare exponent": Bad(GOOD + b"^e5 qid:1 1:1\n", "not a number"),
    "label has an open exponent": Bad(GOOD + b"^1e qid:1 1:1\n", "not a number"),
    "label has two points": Bad(GOOD + b"^1.2.3 qid:1 1:1\n", "not a number"),
    "label has two signs": Bad(GOOD + b"^--1 qid:1 1:1\n", "not a number"),
    "label in Arabic digits": Bad(GOOD + b"^\xd9\xa1 qid:1 1:1\n", "not a number"),
    "label in quotes": Bad(GOOD + b'^"1" qid:1 1:1\n', "not a number"),
    "label is a fraction": Bad(GOOD + b"^1/2 qid:1 1:1\n", "not a number"),
    "label is complex": Bad(GOOD + b"^1j qid:1 1:1\n", "not a number"),
    "label ends in f": Bad(GOOD + b"^1f qid:1 1:1\n", "not a number"),
    "label after a form feed": Bad(GOOD + b"^\x0c1 qid:1 1:1\n", "not a number"),
    "a header line": Bad(b"^label qid f1 f2\n" + GOOD, "not a number"),
    "a byte order mark inside": Bad(GOOD + b"^\xef\xbb\xbf1 qid:1 1:1\n", "byte order mark inside"),
    # queries
    "qid missing in one line": Bad(GOOD + b"1 ^1:0.5\n", "has no qid"),
    "qid missing at the end": Bad(GOOD * 5 + b"1 ^1:0.5", "has no qid"),
    "qid missing with a label only": Bad(GOOD + b"1^\n", "has no qid"),
    "qid appears late": Bad(b"1 1:1\n1 ^qid:2 1:0.5\n", "has a qid, but the lines before"),
    "qid is empty": Bad(GOOD + b"1 qid:^ 1:0.5\n", "the qid is empty"),
    "qid with a blank inside": Bad(GOOD + b"1 qid:^ 7 1:0.5\n", "the qid is empty"),
    "qid without colon": Bad(GOOD + b"1 ^qid 1:0.5\n", "is not a qid"),
    "qid with an equals sign": Bad(GOOD + b"1 ^qid=7 1:0.5\n", "is not a qid"),
    "qid in capitals": Bad(GOOD + b"1 ^QID:1 1:0.5\n", "is not a qid"),
    "qid in mixed case": Bad(GOOD + b"1 ^Qid:1 1:0.5\n", "is not a qid"),
    "qid in capitals first": Bad(b"1 ^QID:1 1:0.5\n", "is not a qid"),
    "qid twice": Bad(GOOD + b"1 qid:1 ^qid:1 1:0.5\n", "a second qid"),
    "qid twice in the first line": Bad(b"1 qid:1 ^qid:2 1:0.5\n", "a second qid"),
    "qid after features": Bad(b"1 1:0.5 ^qid:1\n", "the qid comes after a feature"),
    "qid after features later": Bad(GOOD + b"1 1:0.5 ^qid:1\n", "the qid comes after a feature"),
    "qid before the label": Bad(GOOD + b"^qid:1 1 1:0.5\n", "label is missing"),
    "qid is not UTF-8": Bad(GOOD + b"1 qid:a^\xff 1:0.5\n", "byte 0xff in the qid is not UTF-8"),
    "qid has a control character": Bad(GOOD + b"1 qid:a^\x07 1:1\n", "control character 0x07"),
    "qid has a vertical tab": Bad(GOOD + b"1 qid:1^\x0b 1:0.5\n", "control character 0x0b"),
    "qid has a delete character": Bad(GOOD + b"1 qid:1^\x7f 1:0.5\n", "control character 0x7f"),
    "svmlight cost": Bad(GOOD + b"1 qid:1 ^cost:2 1:0.5\n", "not a whole number"),
    "svmlight slack": Bad(GOOD + b"1 qid:1 ^sid:2 1:0.5\n", "not a whole number"),
    # feature numbers
    "feature 0": Bad(GOOD + b"1 qid:1 ^0:0.5\n", "numbered from 1"),
    "feature 00": Bad(GOOD + b"1 qid:1 ^00:0.5\n", "numbered from 1"),
    "feature number is negative": Bad(GOOD + b"1 qid:1 ^-1:0.5\n", "is negative"),
    "feature number has a plus": Bad(GOOD + b"1 qid:1 ^+1:0.5\n", "not a whole number"),
    "feature number has a point": Bad(GOOD + b"1 qid:1 ^1.0:0.5\n", "not a whole number"),
    "feature number has an exponent": Bad(GOOD + b"1 qid:1 ^1e0:0.5\n", "not a whole number"),
    "feature number has an underscore": Bad(GOOD + b"1 qid:1 ^1_0:5\n", "not a whole number"),
    "feature number is hexadecimal": Bad(GOOD + b"1 qid:1 ^0x1:5\n", "not a whole number"),
    "feature number is text": Bad(GOOD + b"1 qid:1 ^bm25:0.5\n", "not a whole number"),
    "feature number is missing": Bad(GOOD + b"1 qid:1 ^:0.5\n", "no feature number"),
    "feature number is NULL": Bad(GOOD + b"1 qid:1 ^NULL:0.5\n", "not a whole number"),
    "feature number is nan": Bad(GOOD + b"1 qid:1 ^nan:0.5\n", "not a whole number"),
    "feature number of Arabic digits": Bad(GOOD + b"1 qid:1 ^\xd9\xa1:5\n", "not a whole number"),
    "feature number of superscripts": Bad(GOOD + b"1 qid:1 ^\xc2\xb2:5\n", "not a whole number"),
    "feature number above 31 bits": Bad(GOOD + b"1 qid:1 ^2147483648:1\n", "is above 10000000"),
    "feature number above the limit": Bad(GOOD + b"1 qid:1 ^10000001:1\n", "10000000, the limit"),
    "label of a spreadsheet": Bad(GOOD + b"^#N/A qid:1 1:1\n", "#N/A"),
    "feature number of 2**32 + 1": Bad(GOOD + b"1 qid:1 ^4294967297:1\n", "is above"),
    "feature number of 2**63": Bad(GOOD + b"1 qid:1 ^9223372036854775808:1\n", "is above"),
    "feature number of 2**64 + 1": Bad(GOOD + b"1 qid:1 ^18446744073709551617:1\n", "is above"),
    "feature number of 5,000 digits": Bad(GOOD + b"1 qid:1 ^" + b"1" * 5000 + b":1\n", "above"),
    "feature number above n_features": Bad(
        GOOD + b"1 qid:1 1:1 ^3:1\n", "above 2, the last of 2 features", {"n_features": 2}
    ),
    "feature number above n_features from 0": Bad(
        b"1 0:1\n1 ^2:1\n", "above 1, the last of 2", {"n_features": 2, "zero_based": True}
    ),
    "feature twice": Bad(GOOD + b"1 qid:1 1:0.5 ^1:0.5\n", "feature 1 appears twice"),
    "feature twice with zeros": Bad(GOOD + b"1 qid:1 1:0.5 ^01:0.5\n", "appears twice"),
    "feature twice far apart": Bad(GOOD + b"1 qid:1 1:0.5 2:1 3:1 ^1:2\n", "appears twice"),
    "features descend": Bad(GOOD + b"1 qid:1 2:0.5 ^1:0.5\n", "feature 1 comes after feature 2"),
    "features descend late": Bad(GOOD + b"1 qid:1 1:1 2:1 9:1 ^8:1 10:1\n", "8 comes after feat"),
    "features descend across a line": Bad(GOOD + b"1 qid:1 3:1 ^2:1\n" + GOOD, "comes after"),
    "features descend from 0": Bad(b"1 1:1 ^0:1\n", "0 comes after feature 1", {"zero_based": 1}),
    # values
    "value is text": Bad(GOOD + b"1 qid:1 1:^abc\n", 'value "abc" is not a number'),
    "value is missing": Bad(GOOD + b"1 qid:1 1:^\n", "no value after"),
    "value is missing in the middle": Bad(GOOD + b"1 qid:1 1:^ 2:1\n", "no value after"),
    "value after a blank": Bad(GOOD + b"1 qid:1 1:^ 0.5 2:1\n", "no value after"),
    "value after a blank, paired": Bad(GOOD + b"1 qid:1 1:^ 5:3 4:\n", "no value after"),
    "value is nan": Bad(GOOD + b"1 qid:1 1:^nan\n", "not finite"),
    "value is -nan": Bad(GOOD + b"1 qid:1 1:^-nan\n", "not finite"),
    "value is inf": Bad(GOOD + b"1 qid:1 1:^inf\n", "not finite"),
    "value is +Infinity": Bad(GOOD + b"1 qid:1 1:^+Infinity\n", "not finite"),
    "value overflows": Bad(GOOD + b"1 qid:1 1:^1e999\n", "too large"),
    "value overflows below zero": Bad(GOOD + b"1 qid:1 1:^-1e309\n", "too large"),
    "value just overflows": Bad(GOOD + b"1 qid:1 1:^1.7976931348623159e308\n", "too large"),
    "value of 400 digits": Bad(GOOD + b"1 qid:1 1:^" + b"9" * 400 + b"\n", "too large"),
    "value with a long exponent": Bad(GOOD + b"1 qid:1 1:^1e" + b"9" * 50 + b"\n", "too large"),
    "value overflows before another error": Bad(
        GOOD + b"1 qid:1 1:^1e999\n1 qid:1 1:x\n", "too large"
    ),
    "value overflows after another error": Bad(
        GOOD + b"1 qid:1 1:^x\n1 qid:1 1:1e999\n", "not a number"
    ),
    "value is hexadecimal": Bad(GOOD + b"1 qid:1 1:^0x10\n", "hexadecimal"),
    "value is a hexadecimal float": Bad(GOOD + b"1 qid:1 1:^0x1.8p3\n", "hexadecimal"),
    "value has an underscore": Bad(GOOD + b"1 qid:1 1:^1_000\n", "not a number"),
    "value has a comma": Bad(GOOD + b"1 qid:1 1:^0,5\n", "not a number"),
    "value has two points": Bad(GOOD + b"1 qid:1 1:^1.2.3\n", "not a number"),
    "value has two signs": Bad(GOOD + b"1 qid:1 1:^+-1\n", "not a number"),
    "value is a sign": Bad(GOOD + b"1 qid:1 1:^-\n", "not a number"),
    "value is a point": Bad(GOOD + b"1 qid:1 1:^.\n", "not a number"),
    "value has an open exponent": Bad(GOOD + b"1 qid:1 1:^1e\n", "not a number"),
    "value has an open signed exponent": Bad(GOOD + b"1 qid:1 1:^1e+ 2:1\n", "not a number"),
    "value has a broken exponent": Bad(GOOD + b"1 qid:1 1:^1e1.5\n", "not a number"),
    "value has two colons": Bad(GOOD + b"1 qid:1 1:^2:3 4:5\n", "not a number"),
    "value has two colons, paired": Bad(GOOD + b"1 qid:1 1:^2:3 4\n", "not a number"),
    "value ends in f": Bad(GOOD + b"1 qid:1 1:^0.5f\n", "not a number"),
    "value in percent": Bad(GOOD + b"1 qid:1 1:^50%\n", "not a number"),
    "value in Arabic digits": Bad(GOOD + b"1 qid:1 1:^\xd9\xa1\n", "not a number"),
    "value with a full-width digit": Bad(GOOD + b"1 qid:1 1:^\xef\xbc\x91\n", "not a number"),
    "value with a Unicode minus": Bad(GOOD + b"1 qid:1 1:^\xe2\x88\x921\n", "not a number"),
    "value is null": Bad(GOOD + b"1 qid:1 1:^null\n", "not a number"),
    "value is Null": Bad(GOOD + b"1 qid:1 1:^Null\n", "not a number"),
    "value is NULLS": Bad(GOOD + b"1 qid:1 1:^NULLS\n", "not a number"),
    "value is NULL5": Bad(GOOD + b"1 qid:1 1:^NULL5\n", "not a number"),
    "value is 5NULL": Bad(GOOD + b"1 qid:1 1:^5NULL\n", "not a number"),
    "value is -NULL": Bad(GOOD + b"1 qid:1 1:^-NULL\n", "not a number"),
    "value is NULL twice": Bad(GOOD + b"1 qid:1 1:^NULL:NULL\n", "not a number"),
    "value is NA": Bad(GOOD + b"1 qid:1 1:^NA\n", "not a number"),
    "value is NUL": Bad(GOOD + b"1 qid:1 1:^NUL\n", "not a number"),
    "value is N at the end": Bad(GOOD + b"1 qid:1 1:^N", "not a number"),
    "value is a question mark": Bad(GOOD + b"1 qid:1 1:^?\n", "not a number"),
    "value is true": Bad(GOOD + b"1 qid:1 1:^true\n", "not a number"),
    "value ends in a form feed": Bad(GOOD + b"1 qid:1 1:^1\x0c 2:1\n", "not a number"),
    "value ends in a no-break space": Bad(GOOD + b"1 qid:1 1:^1\xc2\xa0\n", "not a number"),
    "values without colons": Bad(GOOD + b"1 qid:1 ^0.5 0.7\n", "has no colon"),
    "values in commas": Bad(GOOD + b"1 qid:1 1:^0.5,2:0.7\n", "not a number"),
    "a lone colon": Bad(GOOD + b"1 qid:1 ^:\n", "no feature number"),
    "a lone word at the end": Bad(GOOD + b"1 qid:1 1:0.5 ^x\n", "has no colon"),
    "a lone number at the end": Bad(GOOD + b"1 qid:1 1:0.5 ^2\n", "has no colon"),
    "cut inside the last feature": Bad(GOOD + b"1 qid:1 1:0.5 ^2", "has no colon"),
    "cut after the last colon": Bad(GOOD + b"1 qid:1 1:0.5 2:^", "no value after"),
    "cut inside NULL": Bad(GOOD + b"1 qid:1 1:0.5 2:^NUL", "not a number"),
    "cut inside the last label": Bad(GOOD + b"^-", "not a number"),
    "cut after the last label": Bad(GOOD + b"1^", "has no qid"),
    "CSV": Bad(b"^2,1,0.5,0.7\n", "not a number"),
    "JSON": Bad(b'^{"label": 1}\n', "label is missing"),
    "HTML": Bad(b"^<!DOCTYPE html>\n", "not a number"),
    # bytes
    "NUL in a value": Bad(GOOD + b"1 qid:1 1:0^\x005\n", "NUL byte"),
    "NUL in a label": Bad(GOOD + b"1^\x00 qid:1 1:0\n", "NUL byte"),
    "NUL in a comment": Bad(GOOD + b"1 qid:1 1:0 #a^\x00b\n", "NUL byte"),
    "NUL in a comment line": Bad(GOOD + b"#a^\x00b\n", "NUL byte"),
    "NUL alone": Bad(GOOD + b"^\x00\n", "NUL byte"),
    "NUL padding at the end": Bad(GOOD + b"^\x00\x00\x00\x00", "NUL byte"),
    "control-Z at the end": Bad(GOOD + b"^\x1a", "not a number"),
    "CR only": Bad(b"1 qid:1 1:1^\r1 qid:1 1:2\r", "carriage return inside"),
    "CR in a comment": Bad(GOOD + b"1 qid:1 1:1 #a^\r2 qid:1 1:1\n", "carriage return inside"),
    "CR in a comment line": Bad(GOOD + b"#a^\r2 qid:1 1:1\n" + GOOD, "carriage return inside"),
    "CR CR LF": Bad(GOOD + b"1 qid:1 1:1^\r\r\n", "carriage return inside"),
    "comment is latin-1": Bad(GOOD + b"1 qid:1 1:1 #caf^\xe9\n", "byte 0xe9 in the comment"),
    "comment is cut UTF-8": Bad(GOOD + b"1 qid:1 1:1 #a^\xe2\x82", "not UTF-8"),
    "column is counted in characters": Bad(GOOD + b"1 qid:\xc3\xa9\xc3\xa9 1:^x\n", "not a number"),
    "line counts comments and blanks": Bad(b"# c\n\n" + GOOD + b"\n#\n^x qid:1 1:1\n", "label"),
    "line counts CRLF": Bad(b"1 qid:1 1:1\r\n\r\n^x qid:1 1:1\r\n", "label"),
    "byte order mark before the error": Bad(b"\xef\xbb\xbf1 qid:1 1:^x\n", "not a number"),
    "line of 16 MiB and a byte": Bad(
        GOOD + b"^1 qid:1 1:1 #" + b"a" * MAX_LINE + b"\n", "longer than 16 MiB"
    ),
    "16 MiB without a newline": Bad(b"^" + b"1" * (MAX_LINE + 1), "longer than 16 MiB"),
    # other files
    "UTF-16 with mark": Bad(b"^" + GOOD.decode().encode("utf-16"), "the file is UTF-16"),
    "UTF-16 big-endian with mark": Bad(
        b"^\xfe\xff" + GOOD.decode().encode("utf-16-be"), "the file is UTF-16"
    ),
    "UTF-16 without mark": Bad(b"^" + GOOD.decode().encode("utf-16-le"), "looks like UTF-16"),
    "UTF-16 big-endian": Bad(b"^" + GOOD.decode().encode("utf-16-be"), "looks like UTF-16"),
    "UTF-32": Bad(b"^" + GOOD.decode().encode("utf-32"), "the file is UTF-16"),
    "gzip inside gzip": Bad(b"^" + gzip.compress(gzip.compress(GOOD)), "gzip inside gzip"),
    "gzip cut off": Bad(b"^" + gzip.compress(GOOD)[:-9], "damaged or cut off"),
    "gzip without its checksum": Bad(b"^" + gzip.compress(GOOD)[:-4], "damaged or cut off"),
    "gzip header only": Bad(b"^" + gzip.compress(GOOD)[:10], "damaged or cut off"),
    "gzip magic only": Bad(b"^\x1f\x8b", "damaged or cut off"),
    "gzip with a flipped byte": Bad(
        b"^" + gzip.compress(GOOD)[:-6] + b"\xff" + gzip.compress(GOOD)[-5:], "damaged or cut off"
    ),
    "gzip and then garbage": Bad(b"^" + gzip.compress(GOOD) + b"garbage", "damaged or cut off"),
    "gzip of nothing": Bad(b"^" + gzip.compress(b""), "no items"),
    "gzip of a bad line": Bad(gzip.compress(GOOD + b"1 qid:1 1:x\n"), "not a number"),
    "zip": Bad(b"^PK\x03\x04\x14\x00", "a zip archive"),
    "bzip2": Bad(b"^BZh91AY&SY", "a bzip2 file"),
    "xz": Bad(b"^\xfd7zXZ\x00\x00", "an xz file"),
    "zstd": Bad(b"^\x28\xb5\x2f\xfd\x04", "not a number"),
    "Parquet": Bad(b"^PAR1\x15\x04", "a Parquet file"),
    "HDF5": Bad(b"^\x89HDF\r\n\x1a\n", "not a number"),
    "NumPy": Bad(b"\x93NUMPY\x01^\x00", "NUL byte"),
    "pickle": Bad(b"^\x80\x04\x95\x10", "not a number"),
    "ELF": Bad(b"^\x7fELF\x02\x01\x01", "label"),
}

FINE = {
    "no newline at the end": Fine(b"1 qid:1 1:2", [[2]], [1], [1]),
    "cut inside the last number": Fine(
        b"1 qid:1 1:0.5\n1 qid:1 1:0.", [[0.5], [0]], [1, 1], [1, 1]
    ),
    "CRLF": Fine(b"1 qid:1 1:2\r\n0 qid:1 1:3\r\n", [[2], [3]], [1, 0], [1, 1]),
    "CR at the very end": Fine(b"1 qid:1 1:2\r\n0 qid:1 1:3\r", [[2], [3]], [1, 0], [1, 1]),
    "CRLF after a comment": Fine(b"1 1:2 #docid = A\r\n", [[2]], [1], None, ["A"]),
    "mixed line ends": Fine(b"1 1:2\n0 1:3\r\n2 1:4\n", [[2], [3], [4]], [1, 0, 2]),
    "byte order mark": Fine(b"\xef\xbb\xbf1 qid:1 1:2\n", [[2]], [1], [1]),
    "byte order mark in gzip": Fine(gzip.compress(b"\xef\xbb\xbf1 1:2\n"), [[2]], [1]),
    "gzip": Fine(gzip.compress(b"1 qid:1 1:2\n"), [[2]], [1], [1]),
    "gzip in two members": Fine(
        gzip.compress(b"1 1:2\n0 1:") + gzip.compress(b"3\n"), [[2], [3]], [1, 0]
    ),
    "gzip padded with zeros": Fine(gzip.compress(b"1 1:2\n") + b"\0" * 512, [[2]], [1]),
    "tabs": Fine(b"1\tqid:1\t1:2\t2:3\n", [[2, 3]], [1], [1]),
    "many blanks": Fine(b"  1   qid:1  1:2   2:3   \n", [[2, 3]], [1], [1]),
    "blank and comment lines": Fine(b"# head\n\n1 1:2\n  \n #x\n0 1:1\n", [[2], [1]], [1, 0]),
    "latin-1 in a dropped comment": Fine(
        b"1 1:2 #\xe9\n#\xe9\n0 1:1\n", [[2], [1]], [1, 0], options={"comments": "drop"}
    ),
    "comment glued to a value": Fine(b"1 1:2#docid=A\n", [[2]], [1], None, ["A"]),
    "comment glued to a label": Fine(b"0 1:1\n1#x\n", [[1], [0]], [0, 1], None, [None, "x"]),
    "comment glued to a qid": Fine(
        b"1 qid:a#x\n0 qid:a 1:1\n", [[0], [1]], [1, 0], ["a", "a"], ["x", None]
    ),
    "comment with a second mark": Fine(b"1 1:2 #docid = A#B\n", [[2]], [1], None, ["A#B"]),
    "comment of another form": Fine(b"1 1:2 # 1A b \n", [[2]], [1], None, ["1A b"]),
    "comment docid without id": Fine(b"1 1:2 #docid = \n", [[2]], [1], None, ["docid ="]),
    "comment docid with two signs": Fine(b"1 1:2 #docid == A\n", [[2]], [1], None, ["="]),
    "comment docids": Fine(b"1 1:2 #docids = A\n", [[2]], [1], None, ["docids = A"]),
    "comment with tabs": Fine(b"1 1:2 #\tdocid\t=\tA\tinc\n", [[2]], [1], None, ["A"]),
    "comment that is empty": Fine(b"1 1:2 #\n", [[2]], [1], None, None),
    "comment in UTF-8": Fine(b"1 1:2 #docid = \xc3\xa9\n", [[2]], [1], None, ["é"]),
    "LETOR 4 comment": Fine(
        b"1 1:2 #docid = GX0-1 inc = 1 prob = 0.02\n", [[2]], [1], None, ["GX0-1"]
    ),
    "NULL": Fine(b"1 qid:1 1:NULL 2:3\n", [[NAN, 3]], [1], [1]),
    "NULL everywhere": Fine(b"1 1:NULL 2:NULL\n0 1:NULL\n", [[NAN, NAN], [NAN, 0]], [1, 0]),
    "a line without features": Fine(b"1 qid:1\n0 qid:1 1:1\n", [[0], [1]], [1, 0], [1, 1]),
    "labels only, columns given": Fine(
        b"1\n0\n", [[0, 0], [0, 0]], [1, 0], options={"n_features": 2}
    ),
    "columns given": Fine(b"1 1:1\n", [[1, 0, 0]], [1], options={"n_features": 3}),
    "columns from 0": Fine(b"1 0:1 2:5\n", [[1, 0, 5]], [1], options={"zero_based": True}),
    "zeros before a number": Fine(b"1 001:0002.50\n", [[2.5]], [1]),
    "negative label": Fine(b"-1 1:1\n+1 1:2\n", [[1], [2]], [-1, 1]),
    "label with decimals": Fine(b"0.25 1:1\n1e1 1:2\n", [[1], [2]], [0.25, 10]),
    "signs and exponents": Fine(
        b"1 1:+1 2:-.5 3:2. 4:1E-2 5:1e+2\n", [[1, -0.5, 2, 0.01, 100]], [1]
    ),
    "minus zero": Fine(b"1 1:-0.0 2:1\n", [[-0.0, 1]], [1]),
    "underflow is zero": Fine(b"1 1:1e-999 2:1\n", [[0, 1]], [1]),
    "the smallest float": Fine(b"1 1:5e-324\n", [[5e-324]], [1]),
    "the largest float": Fine(b"1 1:1.7976931348623157e308\n", [[1.7976931348623157e308]], [1]),
    "the largest float in full": Fine(
        b"1 1:" + str(int(1.7976931348623157e308)).encode() + b"\n", [[1.7976931348623157e308]], [1]
    ),
    "zero with an exponent": Fine(b"1 1:0e999 2:1\n", [[0, 1]], [1]),
    "half way between floats": Fine(b"1 1:9007199254740993\n", [[9007199254740992.0]], [1]),
    "just above half way": Fine(
        b"1 1:9007199254740993.00000000000000000000001\n", [[9007199254740994.0]], [1]
    ),
    "2,000 zeros brought back": Fine(b"1 1:0." + b"0" * 2000 + b"1e2001\n", [[1]], [1]),
    "30 digits": Fine(b"1 1:0.123456789012345678901234567890\n", [[0.12345678901234568]], [1]),
    "qid of 63 bits": Fine(b"1 qid:9223372036854775807 1:1\n", [[1]], [1], [2**63 - 1]),
    "qid of 64 bits is text": Fine(
        b"1 qid:9223372036854775808 1:1\n0 qid:7 1:1\n",
        [[1], [1]],
        [1, 0],
        ["9223372036854775808", "7"],
    ),
    "qid below zero is text": Fine(b"1 qid:-1 1:1\n", [[1]], [1], ["-1"]),
    "qid with zeros before is text": Fine(
        b"1 qid:007 1:1\n0 qid:7 1:1\n", [[1], [1]], [1, 0], ["007", "7"]
    ),
    "qid is text": Fine(
        b"1 qid:new-york 1:1\n0 qid:1 1:2\n", [[1], [2]], [1, 0], ["new-york", "1"]
    ),
    "qid with colons": Fine(b"1 qid:a:b 1:1\n", [[1]], [1], ["a:b"]),
    "qid in UTF-8": Fine(b"1 qid:\xc3\xa9 1:1\n", [[1]], [1], ["é"]),
    "qid in Arabic digits is text": Fine(b"1 qid:\xd9\xa1 1:1\n", [[1]], [1], ["١"]),
    "qid nan is text": Fine(b"1 qid:nan 1:1\n0 qid:nan 1:1\n", [[1], [1]], [1, 0], ["nan", "nan"]),
    "qid comes back": Fine(
        b"1 qid:1 1:1\n1 qid:2 1:1\n0 qid:1 1:2\n", [[1], [1], [2]], [1, 1, 0], [1, 2, 1]
    ),
}


@pytest.fixture(params=["plain", "kernel", "plain, small blocks", "kernel, small blocks"])
def parser(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Both parsers, reading in one piece and with block borders all over the file."""
    large = 0 if "kernel" in request.param else 2**62
    monkeypatch.setattr(read, "_LARGE", large)
    monkeypatch.setattr(read, "_LARGE_COLD", large)
    return request.param


def _set_blocks(parser: str, text: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    if "small" in parser and len(text) < 10_000:
        monkeypatch.setattr(read, "_BLOCK", 32)


@pytest.mark.parametrize("name", BAD)
def test_a_bad_file_is_refused_at_its_line_and_column(
    name: str, parser: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    marked, reason, options = BAD[name]
    before, mark, after = marked.partition(b"^")
    text = before + after
    _set_blocks(parser, text, monkeypatch)
    with pytest.raises(FileFormatError) as caught:
        rw.read_letor(io.BytesIO(text), **options)
    assert reason in caught.value.message
    assert caught.value.fix
    if mark:
        last = before.removeprefix(b"\xef\xbb\xbf").split(b"\n")[-1]
        place = (before.count(b"\n") + 1, len(last.decode("utf-8", "replace")) + 1)
    else:
        place = (2, 11)  # the zipped one
    assert (caught.value.line, caught.value.column) == place


@pytest.mark.parametrize("name", FINE)
def test_an_odd_file_is_read_as_documented(
    name: str, parser: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    case = FINE[name]
    _set_blocks(parser, case.text, monkeypatch)
    items = rw.read_letor(io.BytesIO(case.text), **case.options)
    expected = np.array(case.X, dtype=np.float64)
    assert np.array_equal(items.X.view(np.int64), expected.view(np.int64))  # NaN and -0 as well
    assert items.y.tolist() == case.y
    assert (None if items.qid is None else items.qid.tolist()) == case.qid
    assert (None if items.docid is None else items.docid.tolist()) == case.docid


ONE_BAD_LINE = [
    name
    for name, case in BAD.items()
    if case.text.startswith(GOOD) and len(case.text) < 10_000 and "another error" not in name
]


@pytest.mark.parametrize("name", ONE_BAD_LINE)
def test_a_bad_line_is_skipped_and_its_neighbors_are_read(
    name: str, parser: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    marked, reason, options = BAD[name]
    text = marked.replace(b"^", b"", 1)
    _set_blocks(parser, text, monkeypatch)
    items = rw.read_letor(io.BytesIO(text), on_bad_line="quarantine", **options)
    assert [reason in bad.reason for bad in items.bad_lines] == [True]
    assert len(items) == text.count(GOOD)


def test_there_are_at_least_150_hostile_files() -> None:
    assert len(BAD) >= 150
    assert len(BAD) + len(FINE) >= 200


def test_a_damaged_gzip_names_the_line_it_reached(
    tmp_path: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(read, "_BLOCK", 100)
    text = b"".join(b"1 qid:%d 1:%d\n" % (i, i * 7919) for i in range(1000))
    with pytest.raises(FileFormatError) as caught:
        rw.read_letor(io.BytesIO(gzip.compress(text)[:-20]))
    assert caught.value.line > 900


def test_a_line_of_16_mib_is_read(parser: str) -> None:
    line = b"1 qid:1 1:1 #"
    items = rw.read_letor(io.BytesIO(line + b"a" * (MAX_LINE - len(line)) + b"\n"))
    assert len(items.docid[0]) == MAX_LINE - len(line)


def test_a_dense_matrix_that_cannot_fit_is_refused(parser: str) -> None:
    text = b"1 1:1\n" * 100_000 + b"1 2147483647:1\n"
    with pytest.raises(DataError, match="dense=False"):
        rw.read_letor(io.BytesIO(text), dense=True, n_features=2**31 - 1)
