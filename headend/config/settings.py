"""What an operator can set, where it came from, and how it is read.

Frozen data: nothing here acts. A setting is found, the later the stronger, in its default, in a
TOML file, in a variable (`HEADEND_HTTP__PUBLIC_URL` is `http.public_url`), on the command line.
"""

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Final, Literal, cast, get_type_hints

import msgspec

from api.pusher.limits import PusherSettings as Broadcaster
from api.uploads.limits import UploadLimits
from headend.config.import_settings import Imports
from ingest.rtmp.limits import Limits
from media.hls.playlist import TARGET_SECONDS

__all__ = [
    "Api",
    "Database",
    "Failover",
    "Geo",
    "Http",
    "Imports",
    "Ingest",
    "Live",
    "Log",
    "Recording",
    "Redis",
    "Rtmp",
    "Rtmps",
    "Setting",
    "Settings",
    "SettingsError",
    "Storage",
    "Transcode",
    "explain",
    "load",
]

PREFIX: Final = "HEADEND_"
# Variables of that prefix that name no setting.
# The second stretches the deadlines of the tests, which run this command.
_NOT_SETTINGS: Final = frozenset({"HEADEND_CONFIG", "HEADEND_TEST_SCALE"})
_NOT_TOLD: Final = "(set)"  # instead of a secret


class SettingsError(Exception):
    """A setting is unknown or has a value that it cannot have; the text names it."""


def _about(
    description: str,
    unit: str = "",
    ge: float | None = None,
    le: float | None = None,
    *,
    secret: bool = False,
) -> msgspec.Meta:
    """Describe a setting; one that is `secret` is told to nobody: it may hold a password."""
    extra = {"unit": unit, "secret": "yes" if secret else ""}
    return msgspec.Meta(description=description, extra=extra, ge=ge, le=le)


class _Section(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    def __repr__(self) -> str:
        # As `headend settings` has it: without what is secret.
        told = ", ".join(f"{line.name}={line.value!r}" for line in _explain(self, "", {}))
        return f"{type(self).__name__}({told})"


class Http(_Section, frozen=True, kw_only=True):
    """The API, the pages and the playlists."""

    listen: Annotated[str, _about("where HTTP is served", "HOST:PORT")] = "127.0.0.1:8080"
    public_url: Annotated[str, _about("its address as viewers see it; empty: from listen")] = ""
    playback_url: Annotated[str, _about("a CDN's address for playlists; empty: public_url")] = ""
    trusted_proxies: Annotated[
        str, _about("proxies that tell a client's address; commas between", "networks")
    ] = ""


class Api(_Section, frozen=True, kw_only=True):
    """Callers of the API."""

    requests_per_minute: Annotated[
        int,
        _about("requests of one token to one process, as a burst or evenly; 0: no limit", ge=0),
    ] = 1200
    attempts_per_minute: Annotated[
        int,
        _about("requests without a valid token from one address; 0: no limit", ge=0),
    ] = 60


class Geo(_Section, frozen=True, kw_only=True):
    """Where viewers are."""

    database: Annotated[str, _about("country database, a file in MaxMind's format")] = ""
    trusted_header: Annotated[
        str, _about("header in which trusted proxies tell the viewer's country")
    ] = ""
    private_country: Annotated[
        str, _about("country of private and loopback addresses; empty: unknown", "two letters")
    ] = ""


class Rtmp(_Section, frozen=True, kw_only=True):
    """Plain RTMP ingest."""

    listen: Annotated[str, _about("where encoders connect; empty: nowhere", "HOST:PORT")] = (
        "[::]:1935"
    )
    public_url: Annotated[str, _about("its address as encoders see it; empty: from listen")] = ""
    backup_public_url: Annotated[str, _about("the same of the backups; empty: public_url")] = ""


class Rtmps(_Section, frozen=True, kw_only=True):
    """RTMP over TLS."""

    listen: Annotated[str, _about("where encoders connect; empty: nowhere", "HOST:PORT")] = (
        "[::]:1936"
    )
    public_url: Annotated[str, _about("its address as encoders see it; empty: from listen")] = ""
    backup_public_url: Annotated[str, _about("the same of the backups; empty: public_url")] = ""
    certificate: Annotated[str, _about("PEM file with the chain; empty: one of our own CA")] = ""
    key: Annotated[str, _about("PEM file with the certificate's private key")] = ""


class Ingest(_Section, frozen=True, kw_only=True):
    """The ingest role, where it runs apart from the API."""

    status: Annotated[
        str, _about("where `headend ingest` tells of itself over HTTP; empty: nowhere", "HOST:PORT")
    ] = "127.0.0.1:8081"


class Live(_Section, frozen=True, kw_only=True):
    """Runs and their playlists."""

    reconnect_seconds: Annotated[
        float, _about("a lost encoder may stay away so long before its run ends", "s", ge=0)
    ] = 60.0
    goodbye_seconds: Annotated[
        float, _about("the same for an encoder that took its leave", "s", ge=0)
    ] = 10.0
    listed_seconds: Annotated[float, _about("length of a live playlist", "s", ge=12)] = 30.0
    kept_seconds: Annotated[
        float, _about("segments stay readable after they left the playlist", "s", ge=30)
    ] = 60.0
    poster_seconds: Annotated[
        float, _about("time between two posters of a stream", "s", ge=2, le=3600)
    ] = 30.0


class Failover(_Section, frozen=True, kw_only=True):
    """Who is on air, for streams whose owners set nothing."""

    mode: Annotated[
        Literal["prefer_primary", "sticky"],
        _about("whether a primary that is well again takes over from a backup"),
    ] = "prefer_primary"
    detect_seconds: Annotated[
        float, _about("media that stays away for as long has failed", "s", ge=1, le=30)
    ] = 2.0
    return_seconds: Annotated[
        float, _about("the primary must have been well for as long", "s", ge=0, le=600)
    ] = 10.0


class Recording(_Section, frozen=True, kw_only=True):
    """Runs as videos, for streams whose owners set nothing."""

    enabled: Annotated[bool, _about("each run becomes a video when it is over")] = True
    keep_days: Annotated[
        int, _about("a recording is deleted after so long", "days", ge=1, le=3650)
    ] = 30


class Database(_Section, frozen=True, kw_only=True):
    """The catalog's database."""

    url: Annotated[
        str,
        _about(
            "postgresql://USER:PASSWORD@HOST/NAME; empty: a SQLite file in the data folder",
            secret=True,
        ),
    ] = ""


class Transcode(_Section, frozen=True, kw_only=True):
    """Uploaded files on their way to playlists."""

    workers: Annotated[
        int, _about("files, or parts of one, at work at once; 0: as many as cores", ge=0, le=256)
    ] = 0
    cores: Annotated[
        int, _about("cores that they use together in a process; 0: all there are", ge=0, le=256)
    ] = 0
    lease_seconds: Annotated[
        float,
        _about("a worker that is silent for so long loses its file to another", "s", ge=2, le=600),
    ] = 15.0


class Storage(_Section, frozen=True, kw_only=True):
    """Where things are kept."""

    min_free_bytes: Annotated[
        int, _about("below this much free space the service is not ready", "bytes", ge=0)
    ] = 1 << 30


class Log(_Section, frozen=True, kw_only=True):
    """The log on standard error."""

    format: Annotated[Literal["text", "json"], _about("key=value lines, or JSON lines")] = "text"
    access: Annotated[
        Literal["api", "all", "none"], _about("requests with a line: of callers, all")
    ] = "api"
    level: Annotated[
        Literal["debug", "info", "warning", "error"], _about("least level that is written")
    ] = "info"


class Redis(_Section, frozen=True, kw_only=True):
    """The bus between processes."""

    url: Annotated[
        str,
        _about(
            "redis://:PASSWORD@HOST:6379/0 tells other processes at once; empty: they look",
            secret=True,
        ),
    ] = ""


class Settings(_Section, frozen=True, kw_only=True):
    """All of it; `data` is the folder that holds the database and the media."""

    data: Annotated[str, _about("folder of the database, the media and the owner's token")] = (
        "./data"
    )
    drain_seconds: Annotated[
        float,
        _about("from the first SIGTERM to the end of what is still running", "s", ge=1, le=300),
    ] = 20.0
    http: Http = Http()
    api: Api = Api()
    geo: Geo = Geo()
    rtmp: Rtmp = Rtmp()
    rtmps: Rtmps = Rtmps()
    ingest: Ingest = Ingest()
    live: Live = Live()
    failover: Failover = Failover()
    recording: Recording = Recording()
    database: Database = Database()
    transcode: Transcode = Transcode()
    imports: Imports = Imports()
    storage: Storage = Storage()
    uploads: UploadLimits = UploadLimits()
    limits: Limits = Limits()
    broadcaster: Broadcaster = Broadcaster()
    redis: Redis = Redis()
    log: Log = Log()


class Setting(msgspec.Struct, frozen=True, kw_only=True):
    """One line of `headend settings`; `reason` is why the default is what it is, or ""."""

    name: str
    value: object
    unit: str
    source: str
    description: str
    reason: str


_Values = dict[str, Any]  # the tree of a TOML file: any value may stand in it until it is checked


def load(
    *, file: Path | None, environment: Mapping[str, str], options: Mapping[str, str]
) -> tuple[Settings, dict[str, str]]:
    """Return the settings and, by name, where those came from that are no defaults.

    `options` are those of the command line, by setting name (`http.listen`).

    Raises:
        SettingsError: a name is unknown, a value is wrong, or the file cannot be read.
    """
    values: _Values = {}
    sources: dict[str, str] = {}
    if file is not None:
        for name, value in _flat(_read(file)):
            _put(values, sources, name, value, str(file))
    for variable, text in environment.items():
        if variable.startswith(PREFIX) and variable not in _NOT_SETTINGS:
            name = variable.removeprefix(PREFIX).lower().replace("__", ".")
            _put(values, sources, name, text, variable)
    for name, text in options.items():
        _put(values, sources, name, text, "command line")
    try:
        settings = msgspec.convert(values, Settings, strict=False)
    except msgspec.ValidationError as error:
        raise SettingsError(_sentence(str(error), sources)) from error
    least = settings.live.listed_seconds + TARGET_SECONDS
    if settings.live.kept_seconds < least:
        source = sources.get("live.kept_seconds", "default")
        # A player may still ask for what left the playlist (RFC 8216bis, 6.2.2).
        raise SettingsError(
            f"{source}: live.kept_seconds: Expected at least live.listed_seconds "
            f"and one segment, {least:g} s"
        )
    for name, error in settings.imports.faults().items():
        raise SettingsError(f"{sources.get(name, 'default')}: {name}: {error}") from error
    return settings, sources


def explain(settings: Settings, sources: Mapping[str, str]) -> list[Setting]:
    """Return every setting with its unit, its source and what it is."""
    return list(_explain(settings, "", sources))


def _explain(section: msgspec.Struct, prefix: str, sources: Mapping[str, str]) -> list[Setting]:
    found: list[Setting] = []
    hints = get_type_hints(type(section), include_extras=True)
    for field in msgspec.structs.fields(type(section)):
        name = f"{prefix}{field.name}"
        value: object = getattr(section, field.name)
        if isinstance(value, msgspec.Struct):
            found += _explain(value, f"{name}.", sources)
            continue
        metas = getattr(hints[field.name], "__metadata__", ())
        meta = next((meta for meta in metas if isinstance(meta, msgspec.Meta)), msgspec.Meta())
        extra = cast("dict[str, str]", meta.extra or {})  # made by _about alone
        found.append(
            Setting(
                name=name,
                value=_NOT_TOLD if extra.get("secret") and value else value,
                unit=extra.get("unit", ""),
                source=sources.get(name, "default"),
                description=meta.description or "",
                reason=extra.get("reason", ""),
            )
        )
    return found


def _read(file: Path) -> _Values:
    try:
        return tomllib.loads(file.read_text())
    except OSError as error:
        raise SettingsError(f"{file}: {error.strerror}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise SettingsError(f"{file}: {error}") from error


def _flat(tree: _Values, prefix: str = "") -> list[tuple[str, object]]:
    leaves: list[tuple[str, object]] = []
    for key, value in tree.items():
        if isinstance(value, dict):
            leaves += _flat(cast("_Values", value), f"{prefix}{key}.")
        else:
            leaves.append((f"{prefix}{key}", value))
    return leaves


def _put(values: _Values, sources: dict[str, str], name: str, value: object, source: str) -> None:
    known = _NAMES.get(name)
    if known is None:
        raise SettingsError(f"{source}: there is no setting {name!r}")
    *sections, last = name.split(".")
    for section in sections:
        values = values.setdefault(section, {})
    values[last] = value
    sources[name] = source


def _sentence(error: str, sources: Mapping[str, str]) -> str:
    """Turn "Expected ... - at `$.http.listen`" into a sentence that names setting and source."""
    what, _, where = error.partition(" - at `$.")
    name = where.rstrip("`")
    return f"{sources.get(name, 'default')}: {name}: {what}" if name else error


_NAMES: Final = {setting.name: setting for setting in explain(Settings(), {})}
