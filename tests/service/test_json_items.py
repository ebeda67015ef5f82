"""The fast reader of JSON items: whatever it reads, msgspec reads the same."""

import random
import struct

import msgspec
import numpy as np
import pytest

from rankwright.service.api.candidates import ItemReader
from rankwright.service.api.types import RankRequest
from rankwright.service.log.entries import pack_rows, unpack

BODIES = [
    b'{"query": "q", "items": [{"id": "a", "features": [1, -2.5e3, 0.1]},\n'
    b' {"id": 7, "features": [0, -0.0, 1234567890123456789]}], "n": 2}',
    b'{"items":[{"id":"\\u00e4","features":[1.5,2]},{"id":"b","features":[0,-1]}]}',
    b'{"items": [{"id": 1, "features": [0.25, -1.75, 3.50, 9.99]}, {"id": 2, "features": [0.123456'
    b", -2.5, 7.654321,1.0]}]}",
    '{"user": 3, "items" : [ { "id" : "é" , "features" : [ 1.25 ] } ] }'.encode(),
]


@pytest.fixture(scope="module")
def reader():
    return ItemReader()


def table(request):
    """What a request says, however it was read, with the bits of every number."""
    if request.items is not None:
        ids = [item.id for item in request.items]
        rows = [item.features for item in request.items]
        names = [list(row) if isinstance(row, dict) else None for row in rows]
        rows = [list(row.values()) if isinstance(row, dict) else row for row in rows]
    else:
        ids, n_items = request.ids, len(request.ids)
        rows, names = np.frombuffer(request.float64).reshape(n_items, -1).tolist(), [None] * n_items
    rest = (request.query, request.user, request.model, request.n, request.explain)
    return rest, ids, names, [struct.pack(f"{len(row)}d", *row) for row in rows]


def number_texts(seed, size):
    rng = random.Random(seed)
    for _ in range(size):
        yield repr(rng.uniform(-10, 10))
        yield f"{rng.uniform(-1, 1):.{rng.randrange(1, 19)}f}"
        yield f"{rng.getrandbits(63)}e{rng.randrange(-130, 90)}"
        yield repr(struct.unpack("d", struct.pack("Q", rng.getrandbits(64) % (0x7FF << 52)))[0])
        yield str((2 * (rng.getrandbits(53) | 1 << 52) + 1) << rng.randrange(9))  # halfway


def test_a_number_is_the_nearest_float64(reader):
    n_read = 0
    for text in number_texts(0, 400):
        request = reader.read(b'{"items": [{"id": 1, "features": [%b]}]}' % text.encode())
        if request is not None:
            n_read += 1
            assert request.float64 == struct.pack("d", float(text)), text
    assert n_read > 0.6 * 5 * 400


@pytest.mark.parametrize("separator", [",", ", ", " ,"])
def test_short_decimals_are_read_like_any_number(reader, separator):
    rng = random.Random(0)
    for _ in range(300):
        n_decimals, size = rng.randrange(1, 9), rng.choice([1, 1, 1, 20])
        row = [f"{rng.uniform(-size, size):.{rng.choice([1, n_decimals])}f}" for _ in range(9)]
        body = f'{{"items": [{{"id": 1, "features": [{separator.join(row)}]}}]}}'
        assert reader.read(body.encode()).float64 == struct.pack("9d", *map(float, row)), row


def test_whatever_is_read_is_what_msgspec_reads(reader):
    rng, decoder, n_read = random.Random(0), msgspec.json.Decoder(RankRequest), 0
    pieces = [*(b'",]}{\\0-.e '[i : i + 1] for i in range(11)), b"null", b'"items"']
    for body in BODIES:
        assert table(reader.read(body)) == table(decoder.decode(body))
        for _ in range(2000):
            start = rng.randrange(len(body))
            other = body[:start] + rng.choice([b"", *pieces]) + body[start + rng.randrange(3) :]
            request = reader.read(other)
            if request is not None:
                n_read += 1
                assert table(request) == table(decoder.decode(other)), other
    assert n_read > 500


@pytest.mark.parametrize(
    "body",
    [
        b'{"columns": {"items": [{"id": 1, "features": [1]}]}, "ids": [1]}',
        b'{"items": [{"id": 1, "features": [1]}], "items": []}',
        b'{"items": [{"id": 1, "features": [1]}], "\\u0069tems": []}',
        b'{"items": [{"id": 1, "features": {"a": 1}}]}',
        b'{"items": [{"id": 1, "features": [[1], [2]]}]}',
        b'{"items": [{"id": 1, "features": [true]}]}',
        b'{"items": [{"id": true, "features": [1]}]}',
        b'{"items": [{"id": 1, "id": 2, "features": [1]}]}',
        b'{"items": [{"id": 1, "features": [1]}], "explain": true}',
        b'\xef\xbb\xbf{"items": [{"id": 1, "features": [1]}]}',
        b'{"items": [{"id": "\xff", "features": [1]}]}',
        b'{"items": [{"id": 1, "features": [1]}, {"id": 2, "features": [1, 2]}]}',
        b'{"items": [{"id": 1, "features": [01]}]}',
        b'{"items": [{"id": 1, "features": [1e400]}]}',
        b'{"items": [{"id": 1, "features": [null]}]}',
        b'{"items": []}',
        b'{"items": [{"id": 1, "features": {"a": 1}',
        b'{"items": [{"id": "1}',
    ],
)
def test_other_forms_are_left_to_msgspec(reader, body):
    assert reader.read(body) is None


def test_answers_and_errors_do_not_depend_on_the_reader(client, monkeypatch):
    rows = np.random.default_rng(0).standard_normal((4, 10))
    named = [dict(zip((f"f{i}" for i in range(1, 11)), row, strict=True)) for row in rows.tolist()]
    bodies = [
        {"items": [{"id": f"d{i}", "features": row} for i, row in enumerate(features)]}
        for features in (rows.round(6).tolist(), rows.tolist(), named, rows[:, :3].tolist())
    ]
    bodies.append({"items": [{"id": 1, "features": {"f1": 1, "other": 2}}]})
    bodies.append({"items": [{"id": 1, "features": [1] * 10}, {"id": "1", "features": [2] * 10}]})

    def answers():
        for body in bodies:
            answer = client.post("/v1/rank", json=body).json()
            yield {key: value for key, value in answer.items() if key != "event"}

    fast = list(answers())
    monkeypatch.setattr(client.service.reader, "read", lambda body: None)
    plain = list(answers())
    assert fast == plain
    assert [answer.get("status", 200) for answer in plain] == [200, 200, 200, 422, 422, 422]


def test_packed_rows_keep_every_bit():
    random_rows = np.random.default_rng(0).standard_normal((5, 3))
    special = [[0.0, -0.0], [np.nan, 1.0], [1e300, np.inf], [2147.483647, -2147.483648], [2e3]]
    special += [[8.388607, -8.388607], [8.388608], [-8.388608], [-2147.483648], [-1e-6, 1e-6]]
    single = random_rows.astype(np.float32).astype(float)
    tables = [random_rows, random_rows.round(6), (9 * random_rows).round(5), single]
    for rows in (*tables, np.empty((0, 3)), *(np.array([row], dtype=float) for row in special)):
        packed, form = pack_rows(rows)
        assert unpack(packed, form).tobytes() == rows.tobytes()
    forms = [pack_rows(rows)[1] for rows in tables]
    assert forms == ["f8", "i3", "i4", "f4"]
