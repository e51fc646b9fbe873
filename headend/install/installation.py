"""What a data folder needs before a role can run on it: the database, a project, the owner's token.

`headend serve` and `headend migrate` make it; the other roles only look. The database is a file in
the folder, or one of PostgreSQL's where the settings name it: then the folder holds all the rest.
"""

import time
from pathlib import Path
from typing import Final

from headend.config.settings import Settings
from headend.install.locks import FolderError, changing_form
from storage.catalog import Catalog, open_catalog
from storage.catalog.records.common import FirstStart
from storage.errors import CatalogUnavailable, SchemaMissing, SchemaOlder

__all__ = ["DATABASE", "OWNER_TOKEN", "catalog_place", "found_in", "install", "make_folder"]

DATABASE: Final = "catalog.sqlite"
OWNER_TOKEN: Final = "owner.token"  # noqa: S105 # a file's name


def catalog_place(settings: Settings) -> str | Path:
    """Return where the catalog is: a file, or a server's URL, which may hold a password."""
    return settings.database.url or Path(settings.data) / DATABASE


def make_folder(folder: Path) -> None:
    """Make the data folder, for its owner alone.

    Raises:
        FolderError: it cannot be made.
    """
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise FolderError(f"cannot use {folder} for data: {error.strerror}") from error


async def install(folder: Path, place: str | Path | None = None) -> bool:
    """Make the database and what a first start needs, or bring an older one to its present form.

    `place` is where the catalog is (`catalog_place`); left out, it is a file in the folder.

    Returns whether there was anything to do. What is as it should be is not touched, so it may be
    asked for while Headend runs.

    Raises:
        FolderError: there is something to do, and another process uses the database.
        StorageError: the database cannot be made or used.
    """
    place = place or folder / DATABASE
    if await _is_ready(place):
        return False
    with changing_form(folder):
        async with open_catalog(place, migrate=True) as catalog:
            first = await catalog.installation.first_start(time.time_ns() // 1000)
        if first.owner_token is not None:
            _keep(folder / OWNER_TOKEN, first.owner_token)
    return True


async def found_in(catalog: Catalog) -> FirstStart:
    """Return what the first start left.

    Raises:
        CatalogUnavailable: there was none.
    """
    first = await catalog.installation.find()
    if first is None:
        raise CatalogUnavailable("the catalog is empty; run `headend migrate` first")
    return first


async def _is_ready(place: str | Path) -> bool:
    if isinstance(place, Path) and not place.is_file():  # noqa: ASYNC240 # before anything runs
        return False
    try:
        async with open_catalog(place, migrate=False) as catalog:
            return await catalog.installation.find() is not None
    except (SchemaMissing, SchemaOlder):
        return False


def _keep(path: Path, token: str) -> None:
    path.touch(mode=0o600)
    path.chmod(0o600)
    path.write_text(f"{token}\n")
