"""Files that are something else, recognised by their first bytes and called by their name."""

from __future__ import annotations

import re

__all__ = ["name_of"]

_PICKLE = "a pickle (it could run any code when opened, so rankwright never opens one)"
_JOBLIB = "a joblib pickle (it could run any code when opened, so rankwright never opens one)"

_STARTS: tuple[tuple[bytes, str], ...] = (
    (b"\x93NUMPY", "a NumPy .npy array"),
    (b"\x89HDF\r\n\x1a\n", "an HDF5 file (Keras and others write it)"),
    (b"\x1f\x8b", "a gzip file; if it holds a model file, unpack it first"),
    (b"BZh", "a bzip2 file; if it holds a model file, unpack it first"),
    (b"\xfd7zXZ\x00", "an xz file; if it holds a model file, unpack it first"),
    (b"\x28\xb5\x2f\xfd", "a zstandard file; if it holds a model file, unpack it first"),
    (b"\x04\x22\x4d\x18", "an lz4 file; if it holds a model file, unpack it first"),
    (b"ZF", "a compressed joblib pickle"),
    (b"tree\nversion=", "a LightGBM text model"),
    (b"tree\r\nversion=", "a LightGBM text model"),
    (b"binf", "an XGBoost binary model"),
    (b"CBM1", "a CatBoost model"),
    (b"## ", "a RankLib model"),
    (b"GGUF", "a GGUF model"),
    (b"PAR1", "a Parquet table"),
    (b"ARROW1", "an Arrow file"),
    (b"SQLite format 3\x00", "an SQLite database"),
    (b"%PDF-", "a PDF"),
    (b"version https://git-lfs", "a Git LFS pointer; run 'git lfs pull' to get the file it means"),
    (b"\xff\xfe", "a UTF-16 text"),
    (b"\xfe\xff", "a UTF-16 text"),
)
_INSIDE_ZIP: tuple[tuple[bytes, str], ...] = (
    (b"data.pkl", "a PyTorch file (a zip with a pickle in it)"),
    (b"schema.json", "a skops file"),
    (b".npy", "a NumPy .npz archive"),
)
_INSIDE_JSON: tuple[tuple[bytes, str], ...] = (
    (b"learner", "an XGBoost model"),
    (b"tree_info", "a LightGBM JSON model"),
    (b"oblivious_trees", "a CatBoost JSON model"),
)


def name_of(start: bytes) -> str | None:
    """What a file is, by its first few hundred bytes; None where nothing is recognised.

    >>> name_of(b"tree\\nversion=v4")
    'a LightGBM text model'
    >>> name_of(b"????") is None
    True
    """
    if start[:1] == b"\x80" and start[1:2] in (b"\x02", b"\x03", b"\x04", b"\x05"):
        return _JOBLIB if b"joblib" in start else _PICKLE
    if start[:2] in (b"x\x01", b"x\x5e", b"x\x9c", b"x\xda"):
        return "a zlib stream (joblib writes its compressed pickles so)"
    if start[:4] == b"PK\x03\x04":
        return _first(_INSIDE_ZIP, start) or "a zip archive"
    if start[:1] == b"\x08" and start[2:3] == b"\x12" and start[1:2] < b"\x20":
        return "an ONNX model"
    for magic, name in _STARTS:
        if start.startswith(magic):
            return name
    return _text_form(start)


def _text_form(start: bytes) -> str | None:
    head = start.removeprefix(b"\xef\xbb\xbf").lstrip()[:512]
    if head[:1] in (b"{", b"["):
        return _first(_INSIDE_JSON, start) or "a JSON text"
    if head[:1] == b"<":
        return "an HTML or XML page (a download that failed often looks so)"
    if _is_old_pickle(head):
        return _PICKLE
    return None


def _is_old_pickle(head: bytes) -> bool:
    """Protocols 0 and 1 have no magic: the name of a class, or a dict, list or tuple opens them."""
    return re.match(rb"c[\w.]+\n[\w.]+\n|[(\]}][dlicqt(]", head) is not None


def _first(table: tuple[tuple[bytes, str], ...], start: bytes) -> str | None:
    return next((name for mark, name in table if mark in start), None)
