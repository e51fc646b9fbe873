"""What can go wrong with everything that outlives a process.

    StorageError
    └── CatalogError
        ├── CatalogBusy         the world's: another process writes for too long; try again
        ├── CatalogUnavailable  the world's: the database cannot be read or written
        ├── NoSuchProject       the caller's: the project to make something in is not there
        └── SchemaMismatch      the operator's: the catalog's form is not the one this code knows
            ├── SchemaMissing   there is no catalog at that place
            ├── SchemaOlder     `headend migrate` brings it up
            └── SchemaNewer     a newer Headend has been here

Texts name places and revisions, never a statement, a parameter or a secret.
"""

__all__ = [
    "CatalogBusy",
    "CatalogError",
    "CatalogUnavailable",
    "NoSuchProject",
    "SchemaMismatch",
    "SchemaMissing",
    "SchemaNewer",
    "SchemaOlder",
    "StorageError",
]


class StorageError(Exception):
    """The root of this room's errors."""


class CatalogError(StorageError):
    """The catalog could not do what was asked."""


class CatalogBusy(CatalogError):
    """Another process held the catalog's write lock for longer than we wait."""


class CatalogUnavailable(CatalogError):
    """The catalog's database cannot be read or written: a full or failing disk, a lost file."""


class NoSuchProject(CatalogError):
    """Something was to be made in a project that there is not, or not any more."""

    def __init__(self, project: int) -> None:
        super().__init__(f"there is no project {project}")
        self.project = project


class SchemaMismatch(CatalogError):
    """The catalog at `place` has revision `found` (None: no catalog), the code needs `wanted`."""

    def __init__(self, sentence: str, *, place: str, found: str | None, wanted: str) -> None:
        super().__init__(sentence)
        self.place = place
        self.found = found
        self.wanted = wanted


class SchemaMissing(SchemaMismatch):
    """There is no catalog yet."""

    def __init__(self, place: str, wanted: str) -> None:
        super().__init__(
            f"there is no catalog at {place}; run `headend migrate` or `headend serve` first",
            place=place,
            found=None,
            wanted=wanted,
        )


class SchemaOlder(SchemaMismatch):
    """An older Headend made the catalog and nobody has migrated it since."""

    def __init__(self, place: str, found: str, wanted: str) -> None:
        super().__init__(
            f"the catalog at {place} is at revision {found}, older than the {wanted} that this"
            " version of Headend needs; run `headend migrate`",
            place=place,
            found=found,
            wanted=wanted,
        )


class SchemaNewer(SchemaMismatch):
    """A newer Headend has migrated the catalog; this one would misread it."""

    def __init__(self, place: str, found: str, wanted: str) -> None:
        super().__init__(
            f"the catalog at {place} is at revision {found}, which this version of Headend"
            f" (it knows {wanted}) does not know; run the newer version that wrote it",
            place=place,
            found=found,
            wanted=wanted,
        )
