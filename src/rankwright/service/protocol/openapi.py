"""The OpenAPI document, made from the table of operations and their msgspec types; and its page."""

from __future__ import annotations

import re
from functools import cache
from typing import Any

import msgspec
from markupsafe import Markup, escape

from rankwright import __version__
from rankwright.service.protocol.problems import PROBLEM, ProblemBody
from rankwright.service.protocol.routing import BINARY, JSON, MSGPACK, Operation

REFERENCE = "#/components/schemas/{name}"
ALWAYS = (400, 401, 403, 408, 413, 415, 421, 422, 429, 503)  # what any request can be answered with


def document(operations: list[Operation]) -> bytes:
    """The document as JSON."""
    return msgspec.json.encode(describe(tuple(operations)))


@cache
def describe(operations: tuple[Operation, ...]) -> dict[str, Any]:
    """The document as plain objects."""
    types = [t for op in operations for t in (op.request, op.answer) if t not in (None, bytes)]
    parameters = [p.type for op in operations for p in op.parameters]
    unique = list({repr(t): t for t in (*types, *parameters, ProblemBody)}.values())
    schemas, components = msgspec.json.schema_components(unique, ref_template=REFERENCE)
    schema_of = {repr(t): schema for t, schema in zip(unique, schemas, strict=True)}
    paths: dict[str, Any] = {}
    for op in operations:
        paths.setdefault(op.path, {})[op.method.lower()] = _operation(op, schema_of)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "rankwright",
            "version": __version__,
            "description": "Rank, collect feedback, learn while serving.",
        },
        "paths": paths,
        "components": {
            "schemas": components,
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
        "security": [{}, {"token": []}],
    }


def _operation(op: Operation, schema_of: dict[str, Any]) -> dict[str, Any]:
    about: dict[str, Any] = {
        "operationId": _id(op),
        "summary": op.about,
        "responses": _responses(op, schema_of),
    }
    if op.parameters:
        about["parameters"] = [_parameter(p, schema_of[repr(p.type)]) for p in op.parameters]
    if op.request is bytes:
        content = {BINARY: {"schema": {"type": "string", "format": "binary"}}}
        about["requestBody"] = {"required": True, "content": content}
    elif op.request is not None:
        schema = {"schema": schema_of[repr(op.request)]}
        about["requestBody"] = {"required": True, "content": {JSON: schema}}
    return about


def _id(op: Operation) -> str:
    return "_".join([op.method.lower(), *re.findall(r"[a-z]+", op.path.removeprefix("/v1"))])


def _parameter(parameter: Any, schema: dict[str, Any]) -> dict[str, Any]:
    required = parameter.where == "path" or (
        parameter.default is None and "null" not in msgspec.json.encode(schema).decode()
    )
    return {
        "name": parameter.name,
        "in": parameter.where,
        "description": parameter.about,
        "required": required,
        "schema": schema,
    }


def _responses(op: Operation, schema_of: dict[str, Any]) -> dict[str, Any]:
    content: dict[str, Any] = {media: {"schema": {"type": "string"}} for media in op.media}
    if op.answer is not None:
        content = {JSON: {"schema": schema_of[repr(op.answer)]}}
        if op.path == "/v1/rank":
            content[MSGPACK] = {"schema": {}}
    responses = {str(op.status): {"description": "The answer.", "content": content}}
    problem = {PROBLEM: {"schema": schema_of[repr(ProblemBody)]}}
    for status in sorted({*ALWAYS, *op.problems}):
        responses[str(status)] = {"description": "A problem.", "content": problem}
    return responses


def page(operations: list[Operation], template: Any) -> bytes:
    """The document as a page: every operation, its types and an example call."""
    about = describe(tuple(operations))
    shown = [
        {
            "method": op.method,
            "path": op.path,
            "about": op.about,
            "scope": op.scope,
            "request": _type_name(about, op, "requestBody"),
            "answer": _type_name(about, op, str(op.status)),
            "parameters": about["paths"][op.path][op.method.lower()].get("parameters", []),
        }
        for op in operations
    ]
    schemas = [
        {
            "name": name,
            "about": _as_html(schema.get("description", "")),
            "text": msgspec.json.format(
                msgspec.json.encode(schema.get("properties", schema))
            ).decode(),
        }
        for name, schema in about["components"]["schemas"].items()
    ]
    text: str = template.render(operations=shown, schemas=schemas, version=__version__)
    return text.encode()


def _as_html(text: str) -> Markup:
    """A docstring with what is between double backticks as code.

    >>> _as_html("``ids`` & more")
    Markup('<code>ids</code> &amp; more')
    """
    return Markup(re.sub("``(.+?)``", r"<code>\1</code>", str(escape(text))))


def _type_name(about: dict[str, Any], op: Operation, where: str) -> list[str]:
    """Names of the types of a request or an answer."""
    part = about["paths"][op.path][op.method.lower()]
    part = part.get("requestBody", {}) if where == "requestBody" else part["responses"][where]
    text = msgspec.json.encode(part.get("content", {})).decode()
    return sorted(set(re.findall(r"#/components/schemas/(\w+)", text)))
