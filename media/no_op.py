"""Callbacks that do nothing: the defaults of parameters that name an optional callback.

They accept any positional arguments, so that each fits every signature with its return type.
"""


def do_nothing(*_arguments: object) -> None:
    """Ignore the call."""


async def do_nothing_async(*_arguments: object) -> None:
    """Ignore the call; the default of a callback that is awaited."""


def always(*_arguments: object) -> bool:
    """Return True: the default of a condition that nothing restricts."""
    return True


def never(*_arguments: object) -> bool:
    """Return False: the default of an operation that is not available."""
    return False
