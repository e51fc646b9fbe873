"""Applications of other frameworks, as servers see them."""

from typing import Any

from api.http.application import Application, PlainApplication


async def test_all_requests_to_a_plain_application_need_asgi() -> None:
    calls: list[tuple[Any, ...]] = []

    async def other(*call: Any) -> None:
        calls.append(call)

    app: Application = PlainApplication(other)
    await app("a scope", "receive", "send")
    assert app.fast_path is None
    assert calls == [("a scope", "receive", "send")]
