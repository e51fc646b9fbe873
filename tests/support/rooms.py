"""The rooms of the project: its top-level packages, from the one list in `pyproject.toml`."""

import tomllib
from pathlib import Path
from typing import Any, Final

ROOT: Final = Path(__file__).parents[2]
PROJECT: Final[dict[str, Any]] = tomllib.loads((ROOT / "pyproject.toml").read_text())
ROOMS: Final[tuple[str, ...]] = tuple(
    PROJECT["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"]
)
