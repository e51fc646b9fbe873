"""The errors of everything that outlives a process.

    StorageError
    └── CatalogError
        ├── BackupInUse            the caller's: a backup whose encoder is sending cannot be removed
        ├── CatalogBusy            no fault: another process holds the write lock; try again
        ├── CatalogNotEmpty        for the operator: a catalog is copied to an empty database only
        │   └── CopyOutdated       it has an earlier copy, and one of the two was used since
        ├── CatalogUnavailable     a fault outside Headend: the database cannot be read or written
        │   └── CatalogAway        its server does not answer now, and may answer soon
        ├── HostGone               no fault: the host's row was removed; it registers again
        ├── HashTaken              no fault: a random public name collided; try again
        ├── HostNameTaken          for the operator: another process runs under the host's name
        ├── MediaNotShared         for the operator: several hosts need a bucket for their media
        ├── NameTaken              the caller's: a tag or category of this name exists
        ├── NoSuchLabel            the caller's: a tag, category or player to link does not exist
        ├── NoSuchProject          the caller's: the project does not exist
        ├── NoSuchVideo            the caller's: the video whose file is replaced does not exist
        ├── ProjectNotDeletable    the caller's: the project cannot be deleted, or not now
        ├── StreamStateConflict    the caller's: the stream's state does not allow the command
        ├── TokenRevoked           the caller's: its token was revoked during the request
        ├── TooManyBackups         the caller's: the stream has as many backups as it may have
        ├── TooManyUploads         the caller's: the project has as many open uploads as it may have
        ├── UploadHeld             no fault: another host stores the upload's file just now
        ├── FileChanged            the caller's: the video has another file meanwhile
        ├── NoFormerFile           the caller's: the video's file was not replaced, or long ago
        ├── UploadInProgress       the caller's: the video's first file has not been uploaded yet
        ├── UploadLinkSpent        the caller's: an upload link was used or has expired
        ├── UploadLost             no fault: another writer took the upload over, or it was removed
        ├── VideoNotFailed         the caller's: only a failed video can be queued again
        └── SchemaMismatch         for the operator: the schema is not the one this code needs
            ├── SchemaMissing      there is no catalog yet
            ├── SchemaOlder        `headend migrate` upgrades it
            ├── SchemaTooOld       `headend migrate` of version 0.2 must upgrade it first
            └── SchemaNewer        a newer Headend migrated it

Messages name places and revisions, never a statement, a parameter or a secret.
Object stores add `ObjectError` (`storage.objects.base`), the bus `BusUnavailable`.
"""

from typing import ClassVar


class StorageError(Exception):
    """The root of all storage errors."""


class CatalogError(StorageError):
    """The catalog refused or failed an operation."""


class CatalogBusy(CatalogError):
    """Another process held the catalog's write lock for longer than the timeout."""


class CatalogNotEmpty(CatalogError):
    """The database at `location`, to which a catalog is to be copied, holds rows already."""

    def __init__(self, location: str) -> None:
        super().__init__(
            f"the database at {location} holds rows already: create an empty one to move to, or, if"
            " it has this catalog, set database.url"
        )
        self.location = location


class CopyOutdated(CatalogNotEmpty):
    """The database at `location` has a copy of the catalog in `source` that is not its equal."""

    def __init__(self, location: str, source: str) -> None:
        CatalogError.__init__(
            self,
            f"the database at {location} has a copy of {source} already, and one of them was used"
            " since: to go on with the copy, set database.url and move that file away; to go on"
            " with the file, move it to an empty database",
        )
        self.location = location
        self.source = source


class CatalogUnavailable(CatalogError):
    """The catalog's database cannot be read or written: a full or failing disk, a lost file."""


class CatalogAway(CatalogUnavailable):
    """The server of the catalog's database is stopped, starting or unreachable."""


class NoSuchProject(CatalogError):
    """The project to create a record in does not exist, or no longer exists."""

    def __init__(self, project: int) -> None:
        super().__init__(f"there is no project {project}")
        self.project = project


class NoSuchLabel(CatalogError):
    """The tag, category or player to link is not in the record's project."""

    def __init__(self, kind: str, number: int) -> None:
        super().__init__(f"there is no {kind} {number}")
        self.kind = kind
        self.number = number


class NoSuchVideo(CatalogError):
    """The video whose file is to be replaced is not in the project."""

    def __init__(self, video: int) -> None:
        super().__init__(f"there is no video {video}")
        self.video = video


class NameTaken(CatalogError):
    """Another tag or category (`kind`) of the project has this name; case is ignored."""

    def __init__(self, kind: str, name: str) -> None:
        super().__init__(f"another {kind} has this name")
        self.kind = kind
        self.name = name


class HashTaken(CatalogError):
    """A video or a stream already has this public hash."""

    def __init__(self, hash_: str) -> None:
        super().__init__(f"the name {hash_} is taken")
        self.hash = hash_


class HostGone(CatalogError):
    """The host that claims a stream is not registered, or no longer registered."""

    def __init__(self, host: int) -> None:
        super().__init__(f"the host {host} is not registered")
        self.host = host


class HostNameTaken(CatalogError):
    """Another running process is registered under the name of this host."""

    def __init__(self, name: str) -> None:
        super().__init__(
            f"another process runs as host {name}: set hosts.name to a name of its own on each"
        )
        self.name = name


class MediaNotShared(CatalogError):
    """Another host shares the catalog, but not the folder in which this one keeps media."""

    def __init__(self, host: str) -> None:
        super().__init__(
            f"host {host} runs on the same database: hosts share their media in a bucket, so set"
            " storage.url on each"
        )
        self.host = host


class UploadLinkSpent(CatalogError):
    """An upload link was used or has expired; the message says which."""


class TooManyUploads(CatalogError):
    """A project already has `limit` uploads in progress."""

    def __init__(self, limit: int) -> None:
        super().__init__(f"a project may have at most {limit} uploads under way")
        self.limit = limit


class UploadHeld(CatalogError):
    """All of the upload has arrived, and another host is making a file of it."""

    def __init__(self) -> None:
        super().__init__("another host stores the upload")


class UploadLost(CatalogError):
    """The caller no longer holds the upload, or the upload was removed."""

    def __init__(self) -> None:
        super().__init__("another writer has taken over the upload, or it was removed")


class VideoNotFailed(CatalogError):
    """The video cannot be queued again: it has not failed, or its file is gone."""

    def __init__(self, video: int, state: str) -> None:
        super().__init__(f"video {video} is {state}: there is nothing to try again")
        self.video = video
        self.state = state


class UploadInProgress(CatalogError):
    """The file cannot be replaced while the video's first file is still being uploaded."""

    def __init__(self, video: int) -> None:
        super().__init__(f"the file of video {video} is still being uploaded")
        self.video = video


class NoFormerFile(CatalogError):
    """The video has no former file that could be taken back."""

    def __init__(self, video: int) -> None:
        super().__init__(f"video {video} has no former file")
        self.video = video


class FileChanged(CatalogError):
    """The video's file is not any more the one that was to be exchanged."""

    def __init__(self, video: int) -> None:
        super().__init__(f"the file of video {video} was replaced meanwhile")
        self.video = video


class StreamStateConflict(CatalogError):
    """The stream cannot be paused, resumed or drilled now; the message is the reason."""


class ProjectNotDeletable(CatalogError):
    """A project cannot be deleted, or not now; the message is the reason."""


class BackupInUse(CatalogError):
    """The backup in slot `number` cannot be removed while its encoder is sending."""

    def __init__(self, number: int) -> None:
        super().__init__(f"an encoder is sending to backup {number}")
        self.number = number


class TokenRevoked(CatalogError):
    """The token of the caller was revoked during its request."""


class TooManyBackups(CatalogError):
    """A stream already has `limit` backups."""

    def __init__(self, limit: int) -> None:
        super().__init__(f"a stream may have at most {limit} backups")
        self.limit = limit


class SchemaMismatch(CatalogError):
    """The catalog at `location` has revision `found` (None: none), and this code needs `wanted`.

    `sentence` says so to the operator.
    """

    sentence: ClassVar[str]

    def __init__(self, location: str, found: str | None, wanted: str) -> None:
        super().__init__(self.sentence.format(location=location, found=found, wanted=wanted))
        self.location = location
        self.found = found
        self.wanted = wanted


class SchemaMissing(SchemaMismatch):
    """No catalog exists yet."""

    sentence = "there is no catalog at {location}; run `headend migrate` or `headend serve` first"


class SchemaOlder(SchemaMismatch):
    """An older Headend created the catalog, and it has not been migrated since."""

    sentence = (
        "the catalog at {location} is at revision {found}, older than the {wanted} that this"
        " version of Headend needs; run `headend migrate`"
    )


class SchemaTooOld(SchemaMismatch):
    """A version before 0.2 created the catalog, whose steps this version does not have."""

    sentence = (
        "the catalog at {location} is at revision {found}, of a version before 0.2; install"
        " version 0.2 of Headend and run its `headend migrate` first"
    )


class SchemaNewer(SchemaMismatch):
    """A newer Headend has migrated the catalog; this version would misread it."""

    sentence = (
        "the catalog at {location} is at revision {found}, which this version of Headend"
        " (it knows {wanted}) does not know; run the newer version that wrote it"
    )
