"""The page of the API: every operation with its fields, an example call and its types."""

from __future__ import annotations

import json
import re
from typing import Any

import msgspec
from markupsafe import Markup, escape

from rankwright.service.api.routing import BINARY, Operation, describe

REFERENCE = "#/components/schemas/"
ITEMS = [{"id": "a", "features": [0.3, 1.2]}, {"id": "b", "features": [0.9, 0.1]}]
ITEM_LINES = "items = [\n" + "".join(f"    {json.dumps(item)},\n" for item in ITEMS) + "]\n"
# What a request may send, and the same call with the Python client.
EXAMPLES: dict[str, tuple[Any, str]] = {
    "POST /v1/rank": (
        {"query": "red shoes", "items": ITEMS},
        f'{ITEM_LINES}answer = client.rank(items, query="red shoes")',
    ),
    "POST /v1/recommend": ({"user": "u1", "n": 10}, 'client.recommend(user="u1", n=10)'),
    "POST /v1/fuse": (
        {"runs": {"text": ["a", "b"], "vectors": ["b", "c"]}, "n": 10},
        'client.fuse({"text": ["a", "b"], "vectors": ["b", "c"]}, n=10)',
    ),
    "POST /v1/feedback": (
        {"event": "EVENT", "id": "1", "clicks": ["b"]},
        'client.feedback(answer["event"], clicks=["b"])',
    ),
    "GET /v1/models": (None, "client.models()"),
    "POST /v1/models": (
        None,
        'client.upload(open("shop.rw", "rb").read(), name="shop", activate=True)',
    ),
    "POST /v1/models/rollback": (None, "client.rollback()"),
    "POST /v1/models/{version}/activate": (None, 'client.activate("shop")'),
    "POST /v1/models/{version}/shadow": (None, 'client.shadow("shop")'),
    "DELETE /v1/models/{version}/shadow": (None, 'client.shadow("shop", on=False)'),
    "DELETE /v1/models/{version}": (None, 'client.delete_model("shop")'),
    "GET /v1/log": (None, "for entry in client.log(): ..."),
    "DELETE /v1/log": (None, 'client.delete_user("u1")'),
    "POST /v1/train": (
        {"ranker": "LambdaMART", "activate": "better"},
        'client.train(ranker="LambdaMART", activate="better")',
    ),
    "GET /v1/experiments": (None, "client.experiments()"),
    "POST /v1/experiments": (
        {"name": "new-trees", "models": ["shop", "trees"]},
        'client.create_experiment("new-trees", ["shop", "trees"])',
    ),
    "GET /v1/experiments/{name}": (None, 'client.experiment("new-trees")'),
    "DELETE /v1/experiments/{name}": (None, 'client.stop_experiment("new-trees")'),
    "POST /v1/promote": (None, "client.promote()"),
    "GET /v1/replica": (None, "client.replication()"),
    "GET /healthz": (None, "client.health()"),
    "GET /readyz": (None, "client.ready()"),
    "GET /metrics": (None, "client.metrics()"),
    "GET /openapi.json": (None, "client.openapi()"),
}
ANSWERS: dict[str, Any] = {
    "POST /v1/rank": {
        "event": "01a1ee1b444c7797b8c9bf7c",
        "model": "shop-3f2a9c11",
        "items": [
            {"id": "b", "score": 1.21, "rank": 1},
            {"id": "a", "score": 0.34, "rank": 2},
        ],
    },
    "POST /v1/feedback": {
        "event": "01a1ee1b444c7797b8c9bf7c", "id": "1", "seq": 2, "duplicate": False,
    },
    "GET /healthz": {"status": "ok", "detail": {}},
    "POST /v1/promote": {"term": 1, "last": 4711, "fenced": True},
}  # fmt: skip
GROUPS = {
    "Ranking": ("/v1/rank", "/v1/recommend", "/v1/fuse", "/v1/feedback"),
    "Models and experiments": ("/v1/models", "/v1/train", "/v1/experiments"),
    "Log and replicas": ("/v1/log", "/v1/promote", "/v1/replica"),
    "Health": ("/healthz", "/readyz", "/metrics", "/openapi.json", "/api"),
}


def reference(operations: tuple[Operation, ...], url: str, has_tokens: bool) -> dict[str, Any]:
    """What the page shows: groups of operations, and the types."""
    about = describe(operations)
    schemas = about["components"]["schemas"]
    shown = [_shown(op, about, url, has_tokens) for op in operations]
    return {
        "groups": [
            (title, [each for each in shown if each["path"].startswith(starts)])
            for title, starts in GROUPS.items()
        ],
        "schemas": [
            {
                "name": name,
                "about": as_html(schema.get("description", "")),
                "fields": _fields(schema, schemas),
                "text": msgspec.json.format(msgspec.json.encode(schema)).decode(),
            }
            for name, schema in schemas.items()
        ],
    }


def _shown(op: Operation, about: dict[str, Any], url: str, has_tokens: bool) -> dict[str, Any]:
    call = f"{op.method} {op.path}"
    entry = about["paths"][op.path][op.method.lower()]
    body, python = EXAMPLES.get(call, (None, ""))
    answer = ANSWERS.get(call)
    return {
        "id": entry["operationId"],
        "method": op.method,
        "path": op.path,
        "about": op.about,
        "scope": op.scope,
        "request": _types(entry.get("requestBody", {})),
        "answer": _types(entry["responses"][str(op.status)]),
        "parameters": [
            {**p, "type": _type(p["schema"])} for p in entry.get("parameters", [])
        ],
        "curl": _curl(op, body, url, has_tokens),
        "python": python,
        "example": None if answer is None else json.dumps(answer, indent=2),
    }  # fmt: skip


def _curl(op: Operation, body: object, url: str, has_tokens: bool) -> str:
    path = op.path.replace("{version}", "shop").replace("{name}", "new-trees")
    words = ["curl"] + [f"-X {op.method}"] * (op.method != "GET" and body is None)
    if has_tokens and op.scope is not None:
        words.append('-H "Authorization: Bearer $TOKEN"')
    if op.request is bytes:
        words = [word for word in words if not word.startswith("-X")]
        words += [f"-H 'Content-Type: {BINARY}'", "--data-binary @shop.rw"]
        path += "?name=shop&activate=true"
    elif body is not None:
        words += ["-H 'Content-Type: application/json'", f"-d '{json.dumps(body)}'"]
    required = [p for p in op.parameters if p.required and p.where == "query"]
    query = "&".join(f"{p.name}={p.name.upper()}" for p in required)
    words.append(f"'{url}{path}{'?' if query else ''}{query}'")
    return " \\\n  ".join(words)


def _fields(schema: dict[str, Any], schemas: dict[str, Any]) -> list[dict[str, Any]]:
    """The fields of a type: name, type, whether it is required, default."""
    required = set(schema.get("required", ()))
    return [
        {
            "name": name,
            "type": _type(field),
            "required": name in required,
            "default": "" if field.get("default") is None else json.dumps(field["default"]),
        }
        for name, field in schema.get("properties", {}).items()
    ]


def _type(schema: dict[str, Any]) -> Markup:
    """A schema in a few words, with links to other types.

    >>> _type({"anyOf": [{"type": "array", "items": {"type": "string"}}, {"type": "null"}]})
    Markup('list of text or null')
    """
    if "$ref" in schema:
        name = schema["$ref"].removeprefix(REFERENCE)
        return Markup('<a href="#{0}">{0}</a>').format(name)
    if "anyOf" in schema:
        return Markup(" or ").join(dict.fromkeys(map(_type, schema["anyOf"])))
    if "enum" in schema:
        return Markup(", ").join(Markup("<code>{}</code>").format(v) for v in schema["enum"])
    if schema.get("type") == "array":
        items = schema.get("items") or {"anyOf": schema.get("prefixItems", [])}
        return Markup("list of ") + (_type(items) if items else Markup("anything"))
    if schema.get("type") == "object":
        values: Any = schema.get("additionalProperties")
        known = isinstance(values, dict) and values
        return Markup("object of ") + _type(values) if known else Markup("object")
    words = {"string": "text", "integer": "whole number", "boolean": "true or false"}
    kind = str(schema.get("type", "anything"))
    return Markup(escape(words.get(kind, kind)))


def _types(part: dict[str, Any]) -> list[str]:
    """Names of the types of a request or an answer."""
    text = msgspec.json.encode(part.get("content", {})).decode()
    return sorted(set(re.findall(rf"{REFERENCE}(\w+)", text)))


def as_html(text: str) -> Markup:
    """A docstring with what is between double backticks as code.

    >>> as_html("``ids`` & more")
    Markup('<code>ids</code> &amp; more')
    """
    return Markup(re.sub("``(.+?)``", r"<code>\1</code>", str(escape(text))))
