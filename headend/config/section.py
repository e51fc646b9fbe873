"""A section of the settings: what describes each setting, and how it is shown."""

from collections.abc import Mapping
from typing import Final, cast, get_type_hints

import msgspec

_HIDDEN: Final = "(set)"  # shown instead of a secret


class Setting(msgspec.Struct, frozen=True, kw_only=True):
    """One line of `headend settings`; `reason` explains the default, or is ""."""

    name: str
    value: object
    unit: str
    source: str
    description: str
    reason: str


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


class Section(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Settings that belong together; its `repr` shows no secrets."""

    def __repr__(self) -> str:
        shown = ", ".join(f"{line.name}={line.value!r}" for line in explain(self, {}))
        return f"{type(self).__name__}({shown})"


def explain(section: msgspec.Struct, sources: Mapping[str, str], prefix: str = "") -> list[Setting]:
    """Return every setting of a section, and of those in it, with its value and description.

    `sources` are those of settings that are not defaults, by name (`http.listen`).
    """
    lines: list[Setting] = []
    hints = get_type_hints(type(section), include_extras=True)
    for field in msgspec.structs.fields(type(section)):
        name = f"{prefix}{field.name}"
        value: object = getattr(section, field.name)
        if isinstance(value, msgspec.Struct):
            lines += explain(value, sources, f"{name}.")
            continue
        metas = getattr(hints[field.name], "__metadata__", ())
        meta = next((meta for meta in metas if isinstance(meta, msgspec.Meta)), msgspec.Meta())
        extra = cast("dict[str, str]", meta.extra or {})  # every setting's has only texts
        lines.append(
            Setting(
                name=name,
                value=_HIDDEN if extra.get("secret") and value else value,
                unit=extra.get("unit", ""),
                source=sources.get(name, "default"),
                description=meta.description or "",
                reason=extra.get("reason", ""),
            )
        )
    return lines
