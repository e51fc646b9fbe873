"""Renders the OpenAPI document: as JSON, as YAML and as a reference page.

The usual reference pages load scripts from third-party servers; this one has no script, leaks
nothing about its readers, and works without internet access.
"""

import json
from collections.abc import Iterator, Mapping
from html import escape
from typing import Any, Final

from litestar import Request
from litestar.handlers import HTTPRouteHandler
from litestar.openapi.plugins import JsonRenderPlugin, OpenAPIRenderPlugin, YamlRenderPlugin

__all__ = ["JsonDocument", "ReferencePage", "YamlDocument", "complete_document", "operation_id"]

# Any: an OpenAPI document is JSON, read by the names of its own specification.
Document = Mapping[str, Any]

_STYLE: Final = """
body{font:16px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem;
color-scheme:light dark}
h2{margin-top:2.5rem;border-top:1px solid #8888;padding-top:1rem;font-size:1.1rem}
code,pre{font-family:ui-monospace,monospace;font-size:.9em}
pre{overflow:auto;background:#8882;padding:.8rem;border-radius:.4rem}
td{padding:.1rem 1rem .1rem 0;vertical-align:top}
"""


# Headers of error responses, which Litestar cannot describe.
_SECONDS: Final = {"schema": {"type": "integer", "minimum": 1}, "required": True}
_HEADERS: Final[dict[str, Document]] = {
    "401": {"WWW-Authenticate": {"schema": {"type": "string"}, "required": True}},
    "429": {"Retry-After": {**_SECONDS, "description": "Seconds until the next request."}},
    "503": {"Retry-After": {**_SECONDS, "description": "Seconds until it is worth a try."}},
}


def operation_id(handler: HTTPRouteHandler, _method: object, _path: object) -> str:
    """Return the id of an operation, which generated clients use as its name."""
    return handler.handler_name


def complete_document(document: Document) -> dict[str, Any]:
    """Return the document with the headers of errors, and without empty bodies."""
    return {
        **document,
        "paths": {
            path: {method: _completed_operation(each) for method, each in operations.items()}
            for path, operations in document["paths"].items()
        },
    }


def _completed_operation(operation: Document) -> Document:
    answers = {
        status: {**answer, "headers": {**_HEADERS.get(status, {}), **answer.get("headers", {})}}
        if status in _HEADERS
        else _without_null(answer)
        for status, answer in operation["responses"].items()
    }
    return {**operation, "responses": answers}


def _without_null(answer: Document) -> Document:
    """Remove the content of a response without a body, which Litestar describes as null."""
    schemas = [media["schema"] for media in answer.get("content", {}).values()]
    if schemas != [{"type": "null"}]:
        return answer
    return {name: value for name, value in answer.items() if name != "content"}


# Litestar does not type its requests, hence the pyright comments below.
class JsonDocument(JsonRenderPlugin):
    """Renders the document as JSON."""

    def render(self, request: Request[Any, Any, Any], openapi_schema: Document) -> bytes:
        """Return the document."""
        document = complete_document(openapi_schema)
        return super().render(request, document)  # pyright: ignore[reportUnknownMemberType]


class YamlDocument(YamlRenderPlugin):
    """Renders the document as YAML."""

    def render(self, request: Request[Any, Any, Any], openapi_schema: Document) -> bytes:
        """Return the document."""
        document = complete_document(openapi_schema)
        return super().render(request, document)  # pyright: ignore[reportUnknownMemberType]


class ReferencePage(OpenAPIRenderPlugin):
    """Renders the reference page at /schema."""

    def __init__(self) -> None:
        super().__init__(path="/")

    def render(self, request: Request[Any, Any, Any], openapi_schema: Document) -> bytes:  # noqa: ARG002
        """Return the page."""
        title = escape(openapi_schema["info"]["title"])
        version = escape(openapi_schema["info"]["version"])
        body = "\n".join(_body(openapi_schema))
        return (
            f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{title} API</title>'
            '<meta name="viewport" content="width=device-width">'
            f"<style>{_STYLE}</style></head><body><main><h1>{title} API {version}</h1>"
            '<p>As a document for programs: <a href="/schema/openapi.json">openapi.json</a>.'
            " Every call takes <code>Authorization: Bearer &lt;token&gt;</code>.</p>"
            f"{body}</main></body></html>"
        ).encode()


def _body(document: Document) -> Iterator[str]:
    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            yield f"<h2><code>{escape(method.upper())} {escape(path)}</code></h2>"
            yield f"<p>{escape(operation.get('description') or operation.get('summary', ''))}</p>"
            yield from _parameters(operation)
            content = operation.get("requestBody", {}).get("content", {})
            for kind, media in content.items():
                yield f"<p>Body, <code>{escape(kind)}</code>:</p>{_schema(media['schema'])}"
            yield "<p>Answers:</p><table>"
            for status, answer in operation.get("responses", {}).items():
                yield f"<tr><td><code>{escape(status)}</code></td><td>{_names(answer)}</td></tr>"
            yield "</table>"
    for name, schema in document.get("components", {}).get("schemas", {}).items():
        yield f'<h2 id="{escape(name)}">{escape(schema.get("title", name))}</h2>{_schema(schema)}'


def _parameters(operation: Document) -> Iterator[str]:
    if not operation.get("parameters"):
        return
    yield "<table>"
    for parameter in operation["parameters"]:
        schema = parameter["schema"]
        kind = " | ".join(schema["enum"]) if "enum" in schema else schema.get("type", "")
        yield (
            f"<tr><td><code>{escape(parameter['name'])}</code></td><td>{escape(parameter['in'])}"
            f"</td><td>{escape(kind)}</td><td>{escape(parameter.get('description', ''))}</td></tr>"
        )
    yield "</table>"


def _names(answer: Document) -> str:
    """Return links to the schemas of a response."""
    references = [media["schema"].get("$ref", "") for media in answer.get("content", {}).values()]
    names = [reference.rpartition("/")[2] for reference in references if reference]
    return ", ".join(f'<a href="#{escape(name)}">{escape(name)}</a>' for name in names)


def _schema(schema: Document) -> str:
    return f"<pre>{escape(json.dumps(schema, indent=2, ensure_ascii=False))}</pre>"
