"""The settings of the service: their sections, defaults and sources.

Pure data apart from reading the TOML file. A value comes from, in rising priority: its default, the
TOML file, an environment variable (`HEADEND_HTTP__PUBLIC_URL` sets `http.public_url`), the command
line.
"""

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Final, Literal, cast

import msgspec

from api.intake.limits import UploadLimits
from api.pusher.limits import PusherSettings
from headend.config.backup_settings import BackupSettings
from headend.config.host_settings import HostsSettings
from headend.config.mail_settings import MailSettings
from headend.config.section import Section, explain, unreadable
from headend.config.storage_settings import StorageSettings
from headend.http.connections import CONNECTIONS
from ingest.rtmp.limits import Limits
from media.hls.playlist import TARGET_SECONDS
from media.setting import describe
from outbound.policy import Network, parse_networks

PREFIX: Final = "HEADEND_"
# Variables with the prefix that are not settings: the file's place, and those of the tests.
_FILE_VARIABLE: Final = "HEADEND_CONFIG"
_TEST_PREFIX: Final = "HEADEND_TEST_"


class SettingsError(Exception):
    """A setting is unknown or has an invalid value; the message names it."""


class HttpSettings(Section, frozen=True, kw_only=True):
    """The API, the pages and the playlists."""

    listen: Annotated[str, describe("address where HTTP is served", "HOST:PORT")] = "127.0.0.1:8080"
    public_url: Annotated[
        str, describe("public base URL for viewers; empty: derived from listen")
    ] = ""
    playback_url: Annotated[str, describe("base URL of a CDN for playlists; empty: public_url")] = (
        ""
    )
    home: Annotated[str, describe("where `/` leads to; empty: the console")] = ""
    trusted_proxies: Annotated[
        str,
        describe(
            "proxies whose forwarded client addresses are trusted, comma-separated", "networks"
        ),
    ] = ""
    connections: Annotated[
        int,
        describe(
            "connections that one process holds, web-sockets included; fewer if the limit of open"
            " files leaves no room",
            reason="10 KB each; a viewer has one or two, and a client at most as many as are free",
            ge=1,
        ),
    ] = CONNECTIONS


class ApiSettings(Section, frozen=True, kw_only=True):
    """Limits for callers of the API."""

    requests_per_minute: Annotated[
        int,
        describe("requests of one token to one process, as a burst or evenly; 0: no limit", ge=0),
    ] = 1200
    attempts_per_minute: Annotated[
        int,
        describe("requests without a valid token from one address; 0: no limit", ge=0),
    ] = 60


class GeoSettings(Section, frozen=True, kw_only=True):
    """The country of viewers."""

    database: Annotated[str, describe("country database file in MaxMind's format")] = ""
    trusted_header: Annotated[
        str, describe("header in which trusted proxies send the viewer's country")
    ] = ""
    private_country: Annotated[
        str, describe("country of private and loopback addresses; empty: unknown", "two letters")
    ] = ""


class RtmpSettings(Section, frozen=True, kw_only=True):
    """Plain RTMP ingest."""

    listen: Annotated[
        str, describe("address where encoders connect; empty: not served", "HOST:PORT")
    ] = "[::]:1935"
    public_url: Annotated[str, describe("public URL for encoders; empty: derived from listen")] = ""
    backup_public_url: Annotated[
        str, describe("public URL for backup encoders; empty: public_url")
    ] = ""


class RtmpsSettings(Section, frozen=True, kw_only=True):
    """RTMP over TLS."""

    listen: Annotated[
        str, describe("address where encoders connect; empty: not served", "HOST:PORT")
    ] = "[::]:1936"
    public_url: Annotated[str, describe("public URL for encoders; empty: derived from listen")] = ""
    backup_public_url: Annotated[
        str, describe("public URL for backup encoders; empty: public_url")
    ] = ""
    certificate: Annotated[
        str, describe("PEM file with the chain; empty: issued by the local authority")
    ] = ""
    key: Annotated[str, describe("PEM file with the certificate's private key")] = ""


class IngestSettings(Section, frozen=True, kw_only=True):
    """The ingest role, where it runs apart from the API."""

    status: Annotated[
        str,
        describe("HTTP status address of `headend ingest`; empty: not served", "HOST:PORT"),
    ] = "127.0.0.1:8081"


class StatusSettings(Section, frozen=True, kw_only=True):
    """Health and metrics of a process that serves the API."""

    listen: Annotated[
        str,
        describe("address of health and metrics without a token; empty: not served", "HOST:PORT"),
    ] = ""


class LiveSettings(Section, frozen=True, kw_only=True):
    """Runs and their playlists."""

    reconnect_seconds: Annotated[
        float, describe("a run ends when its lost encoder does not return within", "s", ge=0)
    ] = 60.0
    goodbye_seconds: Annotated[
        float, describe("the same after an encoder ended its stream properly", "s", ge=0)
    ] = 10.0
    end_holds_seconds: Annotated[
        float,
        describe(
            "encoders of an ended stream are refused until none has tried for; 0: never",
            "s",
            reason="encoders reconnect by themselves, and would put it on air again",
            ge=0,
            le=3600,
        ),
    ] = 60.0
    listed_seconds: Annotated[float, describe("length of a live playlist", "s", ge=12)] = 30.0
    kept_seconds: Annotated[
        float, describe("segments are kept after they left the playlist for", "s", ge=30)
    ] = 60.0
    latency: Annotated[
        Literal["low", "normal"],
        describe(
            "`low`: playlists are low-latency HLS; `normal`: they are not",
            reason="players without low latency play the same playlists",
        ),
    ] = "low"
    part_seconds: Annotated[
        float,
        describe(
            "target duration of a partial segment",
            "s",
            reason="players stay at least three of them behind; each costs every viewer a request",
            ge=0.2,
            le=1,
        ),
    ] = 0.5
    poster_seconds: Annotated[
        float, describe("time between two posters of a live stream", "s", ge=2, le=3600)
    ] = 30.0


class FailoverSettings(Section, frozen=True, kw_only=True):
    """Default failover policy, for streams without settings of their own."""

    mode: Annotated[
        Literal["prefer_primary", "sticky"],
        describe("whether a recovered primary takes over from a backup"),
    ] = "prefer_primary"
    detect_seconds: Annotated[
        Annotated[float, msgspec.Meta(ge=0.5, le=30)] | None,
        describe(
            "a source without media for this long has failed; empty: 0.7 at low latency, else 2",
            "s",
        ),
    ] = None
    return_seconds: Annotated[
        float,
        describe("the primary takes over again once it has been healthy for", "s", ge=0, le=600),
    ] = 10.0
    align: Annotated[
        Literal["on", "off"],
        describe("a switch goes on at the same moment of the programme: encoders are compared"),
    ] = "on"
    align_wait_seconds: Annotated[
        Annotated[float, msgspec.Meta(ge=0, le=10)] | None,
        describe(
            "longest wait for an encoder that is behind; empty: 1 at low latency, else 3", "s"
        ),
    ] = None
    quality: Annotated[
        Literal["off", "report", "switch"],
        describe("what follows from black, frozen pictures or silence of one encoder alone"),
    ] = "report"
    quality_seconds: Annotated[
        float, describe("that counts once an encoder has shown it for", "s", ge=1, le=30)
    ] = 3.0


class RecordingSettings(Section, frozen=True, kw_only=True):
    """Default recording policy, for streams without settings of their own."""

    enabled: Annotated[bool, describe("each run becomes a video when it has ended")] = True
    keep_days: Annotated[int, describe("a recording is deleted after", "days", ge=1, le=3650)] = 30


class DatabaseSettings(Section, frozen=True, kw_only=True):
    """The catalog's database."""

    url: Annotated[
        str,
        describe(
            "postgresql://USER:PASSWORD@HOST/NAME; empty: a SQLite file in the data folder",
            secret=True,
        ),
    ] = ""


class TranscodeSettings(Section, frozen=True, kw_only=True):
    """Transcoding of uploaded files."""

    workers: Annotated[
        int,
        describe("files, or spans of files, transcoded at once; 0: as many as cores", ge=0, le=256),
    ] = 0
    cores: Annotated[
        int,
        describe("cores that the workers of a process share; 0: all that it may use", ge=0, le=256),
    ] = 0
    lease_seconds: Annotated[
        float,
        describe("a worker that does not respond for this long loses its file", "s", ge=2, le=600),
    ] = 15.0


class ImportSettings(Section, frozen=True, kw_only=True):
    """Videos that are imported from web addresses."""

    at_once: Annotated[
        int,
        describe(
            "files that a process downloads at once; 0: none",
            "",
            reason="a slow server must not delay the others; a project may use as many as are still"
            " free, so half of them while it is the only one",
            ge=0,
            le=64,
        ),
    ] = 8
    most_bytes: Annotated[
        int, describe("largest file", "bytes", reason="two hours at 55 Mbit/s", ge=1)
    ] = 50 << 30
    least_bytes_per_second: Annotated[
        int,
        describe(
            "a download that is slower for 30 s, three times in a row, is given up",
            "bytes/s",
            reason="it holds a place that others wait for",
            ge=1,
        ),
    ] = 64 << 10
    most_seconds: Annotated[
        float,
        describe(
            "longest time that a download may take",
            "s",
            reason="the longest file at 20 Mbit/s",
            ge=1,
        ),
    ] = 6 * 3600.0
    ports: Annotated[
        str,
        describe(
            "ports that may be connected to, comma-separated",
            "",
            reason="other ports belong to services other than the web",
        ),
    ] = "80, 443"
    allow_private: Annotated[
        str,
        describe(
            "private networks that may be connected to, comma-separated",
            "networks",
            reason="an importer could otherwise reach the service's own network",
        ),
    ] = ""

    @property
    def open_ports(self) -> frozenset[int]:
        """The ports as numbers; raises `ValueError` if one is not a port."""
        numbers = frozenset(int(part) for part in self.ports.split(",") if part.strip())
        if not all(0 < port < 1 << 16 for port in numbers):
            raise ValueError("Expected numbers from 1 to 65535")
        return numbers

    @property
    def private_networks(self) -> tuple[Network, ...]:
        """The parsed networks; raises `ValueError` if one is not a network."""
        return parse_networks(self.allow_private)

    def errors(self) -> Mapping[str, ValueError]:
        """Return the errors in its lists, by setting name."""
        errors: dict[str, ValueError] = {}
        for name, parsed in (("ports", "open_ports"), ("allow_private", "private_networks")):
            try:
                getattr(self, parsed)
            except ValueError as error:
                errors[f"imports.{name}"] = error
        return errors


class QuotaSettings(Section, frozen=True, kw_only=True):
    """What each project may have, where several share an installation; 0: no quota."""

    project_streams: Annotated[int, describe("streams of one project; 0: no quota", ge=0)] = 0
    project_bytes: Annotated[
        int,
        describe(
            "files of one project, what is made of them, and recordings; 0: no quota",
            "bytes",
            ge=0,
        ),
    ] = 0
    project_minutes: Annotated[
        int,
        describe(
            "length of the files that one project adds for transcoding within 30 days; 0: no quota",
            "min",
            ge=0,
        ),
    ] = 0


class TrashSettings(Section, frozen=True, kw_only=True):
    """What is deleted or replaced, and can be restored."""

    # A mistake of a Friday is noticed in the week after.
    keep_days: Annotated[
        int,
        describe(
            "deleted streams, videos and projects, and replaced files, can be restored for this"
            " long; 0: they are deleted at once",
            unit="days",
            ge=0,
            le=3650,
        ),
    ] = 7


class LogSettings(Section, frozen=True, kw_only=True):
    """The log on standard error."""

    format: Annotated[Literal["text", "json"], describe("key=value lines, or JSON lines")] = "text"
    access: Annotated[
        Literal["api", "all", "none"],
        describe("requests that are logged: API calls, all, or none"),
    ] = "api"
    level: Annotated[
        Literal["debug", "info", "warning", "error"], describe("lowest level that is logged")
    ] = "info"


class RedisSettings(Section, frozen=True, kw_only=True):
    """Notifications between processes, and the live edge for those that serve it."""

    url: Annotated[
        str,
        describe(
            "redis://:PASSWORD@HOST:6379/0 (rediss:// over TLS) notifies other processes at once, "
            "and gives `headend api` the live edge; empty: they poll, and serve what is stored",
            secret=True,
        ),
    ] = ""


class ServiceSettings(Section, frozen=True, kw_only=True):
    """All settings; `data` is the folder of the database and the media."""

    data: Annotated[str, describe("folder of the database, the media and the owner's token")] = (
        "./data"
    )
    drain_seconds: Annotated[
        float,
        describe("time to finish after the first SIGTERM", "s", ge=1, le=300),
    ] = 20.0
    http: HttpSettings = HttpSettings()
    api: ApiSettings = ApiSettings()
    geo: GeoSettings = GeoSettings()
    rtmp: RtmpSettings = RtmpSettings()
    rtmps: RtmpsSettings = RtmpsSettings()
    ingest: IngestSettings = IngestSettings()
    hosts: HostsSettings = HostsSettings()
    status: StatusSettings = StatusSettings()
    live: LiveSettings = LiveSettings()
    failover: FailoverSettings = FailoverSettings()
    recording: RecordingSettings = RecordingSettings()
    database: DatabaseSettings = DatabaseSettings()
    transcode: TranscodeSettings = TranscodeSettings()
    imports: ImportSettings = ImportSettings()
    quotas: QuotaSettings = QuotaSettings()
    trash: TrashSettings = TrashSettings()
    storage: StorageSettings = StorageSettings()
    backup: BackupSettings = BackupSettings()
    uploads: UploadLimits = UploadLimits()
    limits: Limits = Limits()
    broadcaster: PusherSettings = PusherSettings()
    redis: RedisSettings = RedisSettings()
    mail: MailSettings = MailSettings()
    log: LogSettings = LogSettings()

    @property
    def knows_countries(self) -> bool:
        """Whether viewers' countries can be known: from a database, a proxy or their addresses."""
        named_proxy = bool(self.http.trusted_proxies.strip())
        return bool(
            self.geo.database
            or (self.geo.trusted_header and named_proxy)
            or (self.geo.private_country and (named_proxy or not self.http.public_url))
        )


_Values = dict[str, Any]  # the tree of a TOML file, not validated yet


def load(
    *, file: Path | None, environment: Mapping[str, str], options: Mapping[str, str]
) -> tuple[ServiceSettings, dict[str, str]]:
    """Return the settings, and the sources of those that are not defaults, by setting name.

    A former setting that is named has a source too, but no effect: see `warnings`. `options` are
    those of the command line, by setting name (`http.listen`).

    Raises:
        SettingsError: a name is unknown, a value is invalid, or the file cannot be read.
    """
    values: _Values = {}
    sources: dict[str, str] = {}
    if file is not None:
        for name, value in _flat(_read(file)):
            _set_value(values, sources, name, value, str(file))
    for variable, text in environment.items():
        if variable == _FILE_VARIABLE or variable.startswith(_TEST_PREFIX):
            continue
        if variable.startswith(PREFIX):
            name = variable.removeprefix(PREFIX).lower().replace("__", ".")
            _set_value(values, sources, name, text, variable)
    for name, text in options.items():
        _set_value(values, sources, name, text, "command line")
    try:
        settings = msgspec.convert(values, ServiceSettings, strict=False)
    except msgspec.ValidationError as error:
        raise SettingsError(_sentence(str(error), sources)) from error
    least = settings.live.listed_seconds + TARGET_SECONDS
    if settings.live.kept_seconds < least:
        source = sources.get("live.kept_seconds", "default")
        # Players may still request segments that left the playlist (RFC 8216bis, 6.2.2).
        raise SettingsError(
            f"{source}: live.kept_seconds: Expected at least live.listed_seconds "
            f"and one segment, {least:g} s"
        )
    wrong = (settings.storage.errors(), settings.imports.errors(), settings.mail.errors())
    for name, error in [item for errors in wrong for item in errors.items()]:
        raise SettingsError(f"{sources.get(name, 'default')}: {name}: {error}") from error
    return settings, sources


def warnings(sources: Mapping[str, str]) -> list[str]:
    """Return a sentence for each former setting that a source names."""
    return [
        f"{source}: {name} has no effect: it is no setting any longer, but always"
        f" {_FORMER[name]:g}. Remove it: the next release refuses to start with it"
        for name, source in sources.items()
        if name in _FORMER
    ]


def _read(file: Path) -> _Values:
    if problem := unreadable(f"--config or {_FILE_VARIABLE}", file):
        raise SettingsError(problem)
    try:
        return tomllib.loads(file.read_text())
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


def _set_value(
    values: _Values, sources: dict[str, str], name: str, value: object, source: str
) -> None:
    if name in _FORMER:
        sources[name] = source
        return
    if name not in _NAMES:
        raise SettingsError(f"{source}: there is no setting {name!r}")
    *sections, last = name.split(".")
    for section in sections:
        values = values.setdefault(section, {})
    values[last] = value
    sources[name] = source


def _sentence(error: str, sources: Mapping[str, str]) -> str:
    """Turn "Expected ... - at `$.http.listen`" into a sentence that names setting and source."""
    problem, _, path = error.partition(" - at `$.")
    name = path.rstrip("`")
    return f"{sources.get(name, 'default')}: {name}: {problem}" if name else error


_NAMES: Final = {setting.name: setting for setting in explain(ServiceSettings(), {})}
# Before 0.3 every limit was a setting.
_FORMER: Final = {
    f"limits.{field.name}": cast("float", field.default)
    for field in msgspec.structs.fields(Limits)
    if f"limits.{field.name}" not in _NAMES
}
