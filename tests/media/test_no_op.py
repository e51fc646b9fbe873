from collections.abc import Awaitable, Callable

from media.no_op import always, do_nothing, do_nothing_async, never


async def test_each_fits_any_signature_with_its_return_type() -> None:
    callbacks: tuple[Callable[[], None], Callable[[float, str], None]] = (do_nothing, do_nothing)
    callbacks[0]()
    callbacks[1](1.0, "a")
    awaited: Callable[[str, dict[str, object]], Awaitable[None]] = do_nothing_async
    await do_nothing_async("a", {})
    assert awaited is do_nothing_async


def test_conditions_are_constant() -> None:
    assert always()
    assert always(b"frame")
    assert not never()
    assert not never(b"frame")
