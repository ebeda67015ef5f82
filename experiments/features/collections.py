"""Cranfield, cystic fibrosis and Home Depot as documents, queries and judgments."""

from __future__ import annotations

import csv
import gzip
import io
import os
import re
from pathlib import Path
from typing import Any, NamedTuple

import rankwright as rw


class Collection(NamedTuple):
    """Documents with their fields, texts of queries, and (query, document) -> grade."""

    name: str
    documents: list[dict[str, Any]]
    queries: dict[str, str]
    grades: dict[tuple[str, str], float]
    relevant: float  # the least grade that counts as relevant
    fields: tuple[str, ...]


def _read(*parts: str) -> str:
    folder = os.environ.get("RANKWRIGHT_DATA")
    path = Path(folder or "", *parts)
    if not folder or not path.is_file():
        raise rw.exceptions.DatasetError("it is not in RANKWRIGHT_DATA.", file="/".join(parts))
    content = gzip.decompress(path.read_bytes()).decode("latin-1")
    return content.replace("\r\n", "\n")


def cranfield() -> Collection:
    """1,400 abstracts on aerodynamics; queries are counted in the order of their file."""
    documents = []
    for record in re.split(r"^\.I ", _read("cranfield", "cran.all.1400.gz"), flags=re.M)[1:]:
        number, rest = record.split("\n", 1)
        parts = re.split(r"^\.([TABW])\n", rest, flags=re.M)
        fields = dict(zip(parts[1::2], parts[2::2], strict=True))
        documents.append({"id": number.strip(), "title": fields["T"], "text": fields["W"]})
    texts = re.split(r"^\.I \d+\n\.W\n", _read("cranfield", "cran.qry.gz"), flags=re.M)[1:]
    queries = {str(k): " ".join(text.split()) for k, text in enumerate(texts, start=1)}
    grades = {}
    for line in _read("cranfield", "cranqrel.gz").splitlines():
        query, document, code = line.split()
        grades[query, document] = 4.0 if code == "-1" else 5.0 - float(code)
    return Collection("Cranfield", documents, queries, grades, 1.0, ("title", "text"))


def cystic_fibrosis() -> Collection:
    """1,239 abstracts; the grade is the sum of the scores of four judges, 0 to 8."""
    documents = []
    for year in range(74, 80):
        content = _read("cystic-fibrosis", f"cf{year}.gz").replace("\x1a", "")
        for record in re.split(r"^PN ", content, flags=re.M)[1:]:
            parts = re.split(r"^([A-Z]{2}) ", "PN " + record, flags=re.M)
            fields: dict[str, str] = {}
            for key, text in zip(parts[1::2], parts[2::2], strict=True):
                fields.setdefault(key, " ".join(text.split()))
            text = fields.get("AB") or fields.get("EX", "")
            subjects = f"{fields.get('MJ', '')} {fields.get('MN', '')}".replace("-", " ")
            document = {"title": fields.get("TI", ""), "text": text, "subjects": subjects}
            documents.append({"id": str(int(fields["RN"])), **document})
    queries, grades = {}, {}
    for record in re.split(r"^QN ", _read("cystic-fibrosis", "cfquery.gz"), flags=re.M)[1:]:
        number, text, judged = re.split(r"^QU |^NR .*\nRD ", record, flags=re.M)[:3]
        query = str(int(number))
        queries[query] = " ".join(text.split())
        words = judged.split()
        for document, scores in zip(words[::2], words[1::2], strict=True):
            grades[query, document] = float(sum(map(int, scores)))
    fields_read = ("title", "text", "subjects")
    return Collection("cystic fibrosis", documents, queries, grades, 1.0, fields_read)


def home_depot() -> Collection:
    """74,067 judged pairs of a search term and a product's title; grades from 1 to 3."""
    rows = csv.DictReader(io.StringIO(_read("home-depot", "train.csv.gz")))
    titles, grades, queries = {}, {}, {}
    for row in rows:
        titles[row["product_uid"]] = row["product_title"]
        queries[row["search_term"]] = row["search_term"]
        grades[row["search_term"], row["product_uid"]] = float(row["relevance"])
    documents = [{"id": uid, "title": title} for uid, title in titles.items()]
    return Collection("Home Depot", documents, queries, grades, 2.0, ("title",))
