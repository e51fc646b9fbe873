"""What describes a setting, wherever the limits are that it is one of."""

import msgspec


def describe(
    description: str,
    unit: str = "",
    ge: float | None = None,
    le: float | None = None,
    *,
    max_length: int | None = None,
    secret: bool = False,
    reason: str = "",
) -> msgspec.Meta:
    """Describe a setting; the value of a `secret` one is never shown.

    Numbers are bounded by `ge` and `le`, texts by `max_length`. `reason` explains the default on
    the settings page.
    """
    extra = {"unit": unit, "secret": "yes" if secret else "", "reason": reason}
    if max_length is not None:
        return msgspec.Meta(description=description, extra=extra, max_length=max_length)
    return msgspec.Meta(description=description, extra=extra, ge=ge, le=le)
