"""What can go wrong with everything that outlives a process.

    StorageError
    └── CatalogError
        ├── BackupInUse         the caller's: a backup whose encoder is sending cannot be removed
        ├── CatalogBusy         the world's: another process writes for too long; try again
        ├── CatalogUnavailable  the world's: the database cannot be read or written
        ├── UploadInProgress          the caller's: a video's first file is still coming
        ├── HashTaken           nobody's: a public name came up twice; try again
        ├── NameTaken           the caller's: what must have a name of its own was given another's
        ├── UploadLinkSpent           the caller's: an upload link was used, or its time is over
        ├── NoSuchLabel         the caller's: a tag, category or player to link is not there
        ├── NoSuchVideo         the caller's: the video whose file is to be replaced is not there
        ├── VideoNotFailed           the caller's: only a failed video is queued again
        ├── StreamStateConflict              the caller's: the stream cannot be paused or resumed as it stands
        ├── NoSuchProject       the caller's: the project to make something in is not there
        ├── ProjectNotDeletable         the caller's: the project cannot be deleted, or not now
        ├── TooManyUploads      the caller's: a project has as many uploads under way as it may
        ├── TooManyBackups      the caller's: the stream has as many backups as it may have
        ├── UploadLost          nobody's: another goes on with the upload, or it is gone
        └── SchemaMismatch      the operator's: the catalog's form is not the one this code knows
            ├── SchemaMissing   there is no catalog at that place
            ├── SchemaOlder     `headend migrate` brings it up
            └── SchemaNewer     a newer Headend has been here

Texts name places and revisions, never a statement, a parameter or a secret.
"""

__all__ = [
    "BackupInUse",
    "CatalogBusy",
    "CatalogError",
    "CatalogUnavailable",
    "HashTaken",
    "NameTaken",
    "NoSuchLabel",
    "NoSuchProject",
    "NoSuchVideo",
    "ProjectNotDeletable",
    "SchemaMismatch",
    "SchemaMissing",
    "SchemaNewer",
    "SchemaOlder",
    "StorageError",
    "StreamStateConflict",
    "TooManyBackups",
    "TooManyUploads",
    "UploadInProgress",
    "UploadLinkSpent",
    "UploadLost",
    "VideoNotFailed",
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


class NoSuchLabel(CatalogError):
    """A record was to be linked with a tag, category or player that its project does not have."""

    def __init__(self, kind: str, number: int) -> None:
        super().__init__(f"there is no {kind} {number}")
        self.kind = kind
        self.number = number


class NoSuchVideo(CatalogError):
    """The file of a video was to be replaced that its project does not have."""

    def __init__(self, video: int) -> None:
        super().__init__(f"there is no video {video}")
        self.video = video


class NameTaken(CatalogError):
    """Another tag or category (`kind`) of the project has this name, whatever its case."""

    def __init__(self, kind: str, name: str) -> None:
        super().__init__(f"another {kind} has this name")
        self.kind = kind
        self.name = name


class HashTaken(CatalogError):
    """A video or a stream has this public name already."""

    def __init__(self, hash_: str) -> None:
        super().__init__(f"the name {hash_} is taken")
        self.hash = hash_


class UploadLinkSpent(CatalogError):
    """An upload link was used already, or its time is over; the text says which."""


class TooManyUploads(CatalogError):
    """A project was to have more than `most` uploads under way."""

    def __init__(self, limit: int) -> None:
        super().__init__(f"a project may have at most {limit} uploads under way")
        self.limit = limit


class UploadLost(CatalogError):
    """An upload was to be finished by who does not append to it any more, or it is gone."""

    def __init__(self) -> None:
        super().__init__("the upload is another's, or gone")


class VideoNotFailed(CatalogError):
    """A video that has not failed, or whose file is gone, was to be queued again."""

    def __init__(self, video: int, state: str) -> None:
        super().__init__(f"video {video} is {state}: there is nothing to try again")
        self.video = video
        self.state = state


class UploadInProgress(CatalogError):
    """A video whose first file is still coming was to get another."""

    def __init__(self, video: int) -> None:
        super().__init__(f"the file of video {video} is still coming")
        self.video = video


class StreamStateConflict(CatalogError):
    """A stream cannot be paused, resumed or drilled as it stands; the text is the reason."""


class ProjectNotDeletable(CatalogError):
    """A project cannot be deleted, or not now; the text is the reason."""


class BackupInUse(CatalogError):
    """A backup was to be removed while its encoder is sending; `number` names its slot."""

    def __init__(self, number: int) -> None:
        super().__init__(f"backup {number} is being sent to")
        self.number = number


class TooManyBackups(CatalogError):
    """A stream was to have more than `most` backups."""

    def __init__(self, limit: int) -> None:
        super().__init__(f"a stream may have at most {limit} backups")
        self.limit = limit


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
