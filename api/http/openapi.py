"""Renders the OpenAPI document: as JSON, as YAML and as a reference page.

Rendering takes half a second of CPU, so it happens once, on a thread, and the bytes are kept. The
usual reference pages load scripts from third-party servers; this one has no script, leaks
nothing about its readers, and works without internet access.
"""

import asyncio
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any, Final

from litestar import Request, Response, Router
from litestar.handlers import HTTPRouteHandler
from litestar.openapi.plugins import OpenAPIRenderPlugin
from litestar.openapi.spec import Operation, Parameter, RequestBody

# Any: an OpenAPI document is JSON, read by the names of its own specification.
Document = Mapping[str, Any]

_PATH: Final = "/schema"
# The page has a style of its own, no scripts and nothing from elsewhere.
_POLICY: Final = (
    "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none';"
    " frame-ancestors 'none'"
)
_STYLE: Final = """
:root{color-scheme:light dark;background:light-dark(#fff,#14181f);color:light-dark(#1b1f27,#e6e9ef)}
body{font:16px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem;
overflow-wrap:anywhere}
a{color:light-dark(#0b57b0,#8ab8ff)}
h2{margin-top:2.5rem;border-top:1px solid #8888;padding-top:1rem;font-size:1.1rem}
code,pre{font-family:ui-monospace,monospace;font-size:.9em}
pre{overflow:auto;background:light-dark(#f1f3f6,#1f252f);padding:.8rem;border-radius:.4rem}
td{padding:.1rem 1rem .1rem 0;vertical-align:top}
"""


# Headers of error responses, which Litestar cannot describe.
_SECONDS: Final = {"schema": {"type": "integer", "minimum": 1}, "required": True}
_HEADERS: Final[dict[str, Document]] = {
    "401": {"WWW-Authenticate": {"schema": {"type": "string"}, "required": True}},
    "429": {"Retry-After": {**_SECONDS, "description": "Seconds until the next request."}},
    "503": {"Retry-After": {**_SECONDS, "description": "Seconds until it is worth a try."}},
}


def operation_taking(body: RequestBody | None, *parameters: Parameter) -> type[Operation]:
    """Return the description of operations with a body and parameters that no handler declares."""

    @dataclass  # so that the generated __init__ calls __post_init__
    class Described(Operation):
        def __post_init__(self) -> None:
            self.parameters = [*(self.parameters or ()), *parameters] or None
            self.request_body = body or self.request_body

    return Described


def operation_id(handler: HTTPRouteHandler, _method: object, _path: object) -> str:
    """Return the id of an operation, which generated clients use as its name."""
    return handler.handler_name


def complete_document(document: Document) -> dict[str, Any]:
    """Return the document with the headers of errors, and without empty bodies.

    Headers are sorted by name: Litestar keeps them in a set, whose order differs by process.
    """
    return {
        **document,
        "paths": {
            path: {method: _completed_operation(each) for method, each in operations.items()}
            for path, operations in document["paths"].items()
        },
    }


def _completed_operation(operation: Document) -> Document:
    answers = {
        status: _with_headers(_without_null(answer), _HEADERS.get(status, {}))
        for status, answer in operation["responses"].items()
    }
    return {**operation, "responses": answers}


def _with_headers(answer: Document, more: Document) -> Document:
    headers = {**more, **answer.get("headers", {})}
    return {**answer, "headers": dict(sorted(headers.items()))} if headers else answer


def _without_null(answer: Document) -> Document:
    """Remove the content of a response without a body, which Litestar describes as null."""
    schemas = [media["schema"] for media in answer.get("content", {}).values()]
    if schemas != [{"type": "null"}]:
        return answer
    return {name: value for name, value in answer.items() if name != "content"}


class ReadyDocuments:
    """Renders each document once, on a thread, and answers with its bytes.

    `plugins` define the documents by their paths; `router` is for Litestar's configuration.
    """

    def __init__(self, plugins: Sequence[OpenAPIRenderPlugin]) -> None:
        self._plugins = {path: plugin for plugin in plugins for path in plugin.paths}
        self._bodies: dict[OpenAPIRenderPlugin, bytes] = {}
        self._lock = asyncio.Lock()

    def router(self) -> Router:
        """Return the router to which Litestar adds the paths of the plugins."""
        return Router(
            _PATH, route_handlers=[], include_in_schema=False, before_request=self._respond
        )

    async def _respond(self, request: Request[Any, Any, Any]) -> Response[bytes] | None:
        """Answer instead of Litestar, which renders on the event loop, for each request."""
        path = request.url.path.removeprefix(_PATH).rstrip("/") or "/"
        plugin = self._plugins.get(path)
        if plugin is None:
            return None  # Litestar's 404
        async with self._lock:
            if plugin not in self._bodies:
                self._bodies[plugin] = await asyncio.to_thread(_render, plugin, request)
        return Response(
            self._bodies[plugin],
            media_type=plugin.media_type,
            headers={"Content-Security-Policy": _POLICY},
        )


def _render(plugin: OpenAPIRenderPlugin, request: Request[Any, Any, Any]) -> bytes:
    document = complete_document(request.app.openapi_schema.to_schema())
    return plugin.render(request, document)  # pyright: ignore[reportUnknownMemberType]  # see below


# Litestar does not type its requests.
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
    # It scrolls sideways: by keyboard only what can have the focus does.
    return f"<pre tabindex=0>{escape(json.dumps(schema, indent=2, ensure_ascii=False))}</pre>"
