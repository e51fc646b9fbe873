"""A section of the settings, how its settings are shown, and the files that they name."""

from collections.abc import Mapping
from pathlib import Path
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


class Section(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Settings that belong together; its `repr` shows no secrets."""

    def __repr__(self) -> str:
        shown = ", ".join(f"{line.name}={line.value!r}" for line in explain(self, {}))
        return f"{type(self).__name__}({shown})"


def explain(section: msgspec.Struct, sources: Mapping[str, str], prefix: str = "") -> list[Setting]:
    """Return every setting of a section, and of those in it, with its value and description.

    A field without a description is a constant and not among them. `sources` are those of settings
    that are not defaults, by name (`http.listen`).
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
        meta = next((meta for meta in metas if isinstance(meta, msgspec.Meta)), None)
        if meta is None:
            continue
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


def unreadable(setting: str, path: Path) -> str | None:
    """Return why this process cannot read the file that a setting names; None if it can.

    The sentence begins with the setting, and is the same whichever file it is.
    """
    try:
        with path.open("rb"):
            return None
    except PermissionError:
        return f"{setting}: {path}: the user that Headend runs as may not read it"
    except OSError as error:
        return f"{setting}: {path}: {error.strerror}"
