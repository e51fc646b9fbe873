"""The command line interface `headend`."""

import asyncio
import gc
import json
import os
import subprocess
import sys
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Any, Final

import click

from api.pusher.protocol import APP
from api.schemas.text_fields import Name
from headend.config.listen_sockets import parse, public_base
from headend.config.section import explain
from headend.config.settings import ServiceSettings, SettingsError, warnings
from headend.config.settings import load as load_settings
from headend.console_link import NoSuchToken, console_link
from headend.install import findings
from headend.install.findings import size_text
from headend.install.installation import (
    MOVED,
    OWNER_TOKEN,
    catalog_location,
    create_data_folder,
    install,
    move_catalog,
    read_installation,
    require_unmoved,
    take_over_media,
)
from headend.install.locks import DataFolderError
from headend.install.media_copy import MediaTarget, copy_media, media_place, media_target
from headend.install.media_store import bucket_of
from headend.install.system import (
    SETTINGS,
    SystemInstallError,
    install_system,
    make_user_and_folders,
    require_visible,
    shared_files,
)
from headend.own_command import runnable
from headend.printable import printable
from media.ticks import MICROSECONDS
from storage.catalog import Catalog, open_catalog
from storage.catalog.records.common import Change
from storage.errors import StorageError
from storage.objects.base import ObjectError
from storage.objects.copying import CopyProgress
from storage.wall_clock import wall_clock_us

_PRIVATE_FILES: Final = 0o077  # files are made with mode 0600, folders with 0700
# The demo's primary is back after 3 s, on air again after being well for 10 s, and then visible for
# some seconds.
_EVERY_SECONDS: Final = 20.0
_SIZE_HELP: Final = "WIDTHxHEIGHT in pixels."

# The settings that each option overrides.
_SETTINGS: Final = {
    "data": ("data",),
    "http_listen": ("http.listen",),
    "rtmp_listen": ("rtmp.listen",),
    "rtmps_listen": ("rtmps.listen",),
    # A process is either an ingest or serves the API.
    "status_listen": ("status.listen", "ingest.status"),
}

Command = Callable[..., Any]  # decorated by click


class _Failure(click.ClickException):
    """Ends a command with a message, which may have the words of a server or the name of a file."""

    def format_message(self) -> str:
        """Return the message, fit for a terminal."""
        return "\n".join(printable(line) for line in runnable(self.message).split("\n"))


def _settings_options(command: Command) -> Command:
    """Add the options that override settings."""
    options = (
        click.option("--config", type=click.Path(path_type=Path), envvar="HEADEND_CONFIG",
                     help="TOML file with settings."),
        click.option("--data", help="Data folder (setting data)."),
        click.option("--http", "http_listen", help="HOST:PORT of HTTP (setting http.listen)."),
        click.option("--rtmp", "rtmp_listen", help="HOST:PORT of RTMP (setting rtmp.listen)."),
        click.option("--rtmps", "rtmps_listen", help="HOST:PORT of RTMPS (setting rtmps.listen)."),
        click.option("--status", "status_listen",
                     help="HOST:PORT of metrics (settings status.listen, ingest.status)."),
    )  # fmt: skip
    for option in reversed(options):
        command = option(command)
    return command


def _takes_settings(command: Command) -> Command:
    """Add these options, and call the command with the `settings` that follow from them."""

    @wraps(command)
    def with_settings(**arguments: Any) -> None:  # Any: what click passes, options of any type
        overrides = {name: arguments.pop(name) for name in ("config", *_SETTINGS)}
        command(settings=_read(**overrides)[0], **arguments)

    return _settings_options(with_settings)


def _takes_new_store(command: Command) -> Command:
    """Add the option that confirms an empty store."""
    return click.option(
        "--new-store",
        is_flag=True,
        help="Take an empty folder or prefix for the media, though the database has had a store.",
    )(command)


def _read(config: Path | None, **arguments: str | None) -> tuple[ServiceSettings, dict[str, str]]:
    options = {
        name: value
        for key, value in arguments.items()
        if value is not None
        for name in _SETTINGS[key]
    }
    try:
        settings, sources = load_settings(file=config, environment=os.environ, options=options)
    except SettingsError as error:
        raise _Failure(str(error)) from error
    for warning in warnings(sources):
        click.echo(f"Warning: {printable(warning)}", err=True)
    return settings, sources


@click.group()
@click.version_option(package_name="headend")
@click.pass_context
def main(context: click.Context) -> None:
    """Headend: RTMP and RTMPS in, multi-resolution HLS out."""
    # Media of unpublished records, keys and tokens: for the service's own user only.
    before = os.umask(_PRIVATE_FILES)
    context.call_on_close(lambda: os.umask(before))


@main.command()
@_takes_settings
@_takes_new_store
def serve(settings: ServiceSettings, *, new_store: bool) -> None:
    """Run the whole service in this process."""
    _run("serve", settings, new_store=new_store)


@main.command()
@_takes_settings
def ingest(settings: ServiceSettings) -> None:
    """Run only ingest: accept encoders and transcode live streams."""
    _run("ingest", settings)


@main.command()
@_takes_settings
def api(settings: ServiceSettings) -> None:
    """Run only the API, the pages and the playlists, next to `headend ingest`."""
    _run("api", settings)


@main.command()
@_takes_settings
def transcode(settings: ServiceSettings) -> None:
    """Run only workers for uploaded files; any number of these processes may run."""
    _run("transcode", settings)


@main.command()
@_takes_settings
@click.option(
    "--every",
    type=click.FloatRange(min=0),
    default=_EVERY_SECONDS,
    show_default=True,
    help="Seconds after which the primary's encoder is killed; 0: never.",
)
def demo(settings: ServiceSettings, every: float) -> None:
    """Run the service with two test encoders, one of which is killed repeatedly."""
    _run("serve", settings, demo=every)


def _run(
    role: str, settings: ServiceSettings, *, demo: float | None = None, new_store: bool = False
) -> None:
    # Importing the roles takes most of a start, so only these commands do it. What is loaded stays:
    # the garbage collector need not scan it again and again.
    gc.disable()
    from headend import logs  # noqa: PLC0415
    from headend.roles.wiring import ROLES  # noqa: PLC0415
    from headend.run import StartError, run  # noqa: PLC0415

    gc.freeze()
    gc.enable()
    logs.set_up(form=settings.log.format, level=settings.log.level)
    try:
        run(ROLES[role], settings, demo=demo, new_store=new_store)
    except StartError as error:
        raise _Failure(str(error)) from error


@main.command("settings")
@_settings_options
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def show_settings(config: Path | None, *, as_json: bool, **arguments: str | None) -> None:
    """Print every setting with its value, unit, source and meaning."""
    lines = explain(*_read(config, **arguments))
    if as_json:
        click.echo(
            json.dumps([{f: getattr(line, f) for f in line.__struct_fields__} for line in lines])
        )
        return
    width = max(len(line.name) for line in lines)
    for line in lines:
        unit = f" {line.unit}" if line.unit else ""
        value = "empty" if line.value is None else f"{json.dumps(line.value)}{unit}"
        click.echo(f"{line.name:<{width}} = {value}  [{line.source}]  {line.description}")


@main.command()
@_takes_settings
@click.option("--to", metavar="URL", help="Move the SQLite database to an empty one of PostgreSQL.")
@click.option(
    "--media-to",
    metavar="PLACE",
    help="Copy the media to s3://BUCKET/PREFIX, or from a bucket to a data folder.",
)
@click.option(
    "--media-endpoint", metavar="URL", help="With --media-to: instead of storage.endpoint."
)
@click.option("--media-region", metavar="NAME", help="With --media-to: instead of storage.region.")
@_takes_new_store
def migrate(
    settings: ServiceSettings,
    *,
    to: str | None,
    media_to: str | None,
    media_endpoint: str | None,
    media_region: str | None,
    new_store: bool,
) -> None:
    """Create the data folder and its database, or migrate an older database."""
    if media_to is None and (media_endpoint or media_region):
        raise click.UsageError("--media-endpoint and --media-region need --media-to")
    if new_store and (to is not None or media_to is not None):
        raise click.UsageError("--new-store goes with neither --to nor --media-to")
    folder = Path(settings.data)
    try:
        if to is not None:
            require_unmoved(folder)
        if media_to is not None:
            target = media_target(settings, media_to, endpoint=media_endpoint, region=media_region)
            _copy_media(settings, target)
        if to is not None:
            copied = asyncio.run(move_catalog(folder, to, bucket_of(settings)))
            done = (
                f"{copied.location} has all {copied.rows} rows, which were moved before"
                if copied.was_there
                else f"moved {copied.rows} rows to {copied.location}"
            )
            click.echo(
                f"{done}: start with database.url set to it; {folder / MOVED} is the old database"
            )
        if to is not None or media_to is not None:
            return
        create_data_folder(folder)
        location, bucket = catalog_location(settings), bucket_of(settings)
        asyncio.run(install(folder, location, bucket, new_store=new_store))
    except (DataFolderError, StorageError) as error:
        raise _Failure(str(error)) from error
    click.echo("the database is up to date")
    if (folder / OWNER_TOKEN).exists():  # absent if the database was created elsewhere
        click.echo(f"the owner's token is in {folder / OWNER_TOKEN}")


class _Once:
    """Prints a text that is given again and again."""

    def __init__(self) -> None:
        self._printed = ""

    def __call__(self, text: str) -> None:
        if text != self._printed:
            click.echo(text, err=True)
        self._printed = text


def _copy_media(settings: ServiceSettings, target: MediaTarget) -> None:
    """Copy the media; print what was copied, and which settings are to be changed."""
    terminal = sys.stderr.isatty()

    def report(progress: CopyProgress) -> None:
        text = (
            f"{progress.folders:,} of {progress.of_folders:,} folders,"
            f" {progress.objects:,} objects, {size_text(progress.bytes)}"
        )
        click.echo(f"\r{text:<70}", err=True, nl=False)

    try:
        result = copy_media(settings, target, report if terminal else lambda _: None)
    except ObjectError as error:
        raise _Failure(
            f"copying to {target.location} failed: {error}; not all media are copied: the same"
            " command goes on from here"
        ) from error
    finally:
        if terminal:
            click.echo(err=True)
    source = media_place(settings)
    more = f", and {result.more:,} more" if result.more else ""
    click.echo(
        f"copied {result.copied:,} objects, {size_text(result.copied_bytes)}: {target.location}"
        f" has all {result.objects:,} objects of {source}, {size_text(result.bytes)}{more}"
    )
    click.echo(f"start with {target.advice}; nothing was removed from {source}")


@main.command()
@_takes_settings
@click.option(
    "--clean",
    "cleans",
    is_flag=True,
    help="First remove orphaned files and what has expired (to the trash).",
)
@click.option(
    "--confirm",
    "confirms",
    is_flag=True,
    help="With --clean: also if unusually much is to be removed (see the lines with ACT).",
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def doctor(settings: ServiceSettings, *, cleans: bool, confirms: bool, as_json: bool) -> None:
    """Examine the installation; the exit code is 1 if an operator must act."""
    # It needs clients of all that may be wrong, which no other command does.
    from headend.install.doctor import clean, examine  # noqa: PLC0415 # see above

    if confirms and not cleans:
        raise click.UsageError("--confirm needs --clean")
    if cleans:
        try:
            cleaning = clean(settings, wall_clock_us(), confirmed=confirms, on_wait=_Once())
            removed = asyncio.run(cleaning)
        except (DataFolderError, StorageError) as error:
            raise _Failure(str(error)) from error
        click.echo(f"removed: {removed}", err=True)
    results = asyncio.run(examine(settings, wall_clock_us()))
    click.echo(findings.as_json(results) if as_json else findings.as_text(results))
    sys.exit(int(findings.needs_action(results)))


@main.command()
@click.argument("place", required=False)
@click.option("--check", "checks", is_flag=True, help="Make none; read all backups back.")
@click.option("--list", "lists", is_flag=True, help="Make none; print those that there are.")
@click.option("--keep-daily", type=click.IntRange(0), help="Instead of backup.keep_daily.")
@click.option("--keep-weekly", type=click.IntRange(0), help="Instead of backup.keep_weekly.")
@click.option("--keep-monthly", type=click.IntRange(0), help="Instead of backup.keep_monthly.")
@click.option("--endpoint", metavar="URL", help="Instead of backup.endpoint.")
@click.option("--region", metavar="NAME", help="Instead of backup.region.")
@_takes_settings
def backup(settings: ServiceSettings, **options: Any) -> None:
    """Back everything up, while it runs, to PLACE: a folder or s3://BUCKET/PREFIX.

    Without PLACE, to the setting backup.to. Backups that are not to be kept are removed then."""
    from headend.backup_commands import run_backup  # noqa: PLC0415 # no other command needs it

    try:
        sys.exit(run_backup(settings, **options))
    except (DataFolderError, StorageError) as error:
        raise _Failure(str(error)) from error


@main.command()
@click.argument("place", required=False)
@click.option("--at", metavar="NAME", help="A backup of `headend backup --list`, not the newest.")
@click.option("--endpoint", metavar="URL", help="Instead of backup.endpoint.")
@click.option("--region", metavar="NAME", help="Instead of backup.region.")
@_takes_settings
def restore(settings: ServiceSettings, **options: Any) -> None:
    """Restore a backup from PLACE into the data folder, bucket and database of the settings.

    All of them must be empty. Without PLACE, from the setting backup.to."""
    from headend.backup_commands import run_restore  # noqa: PLC0415 # no other command needs it

    try:
        run_restore(settings, **options)
    except (DataFolderError, StorageError) as error:
        raise _Failure(str(error)) from error


@main.command("take-over")
@_takes_settings
def take_over(settings: ServiceSettings) -> None:
    """Use the media with this database from now on, whichever copy of it used them before.

    A Headend that runs on the other database deletes and adds nothing more within a minute."""
    location = catalog_location(settings)
    try:
        lease = asyncio.run(take_over_media(Path(settings.data), location, bucket_of(settings)))
    except (DataFolderError, StorageError) as error:
        raise _Failure(str(error)) from error
    click.echo(f"the media in {media_place(settings)} are this database's")
    if lease is not None:
        click.echo(f"before, the database at {lease.catalog} on {lease.host} had them")


@main.command()
@_takes_settings
def streams(settings: ServiceSettings) -> None:
    """Print every stream with its hash and stream key."""

    async def work(catalog: Catalog) -> None:
        for record in await catalog.streams.find_all():
            _print_row(record.id, record.hash, record.key.text, record.title)

    _with_catalog(settings, work)


@main.command()
@_takes_settings
def hosts(settings: ServiceSettings) -> None:
    """Print the processes that receive streams: name, role, version, seconds since each was seen,
    alive or gone, streams that it owns, address that others relay to, streams that it may own."""

    async def work(catalog: Catalog) -> None:
        if not catalog.is_shared:
            click.echo("with SQLite one process receives streams: there are no hosts", err=True)
        for host in await catalog.hosts.find_all(settings.hosts.dead_seconds):
            state = "alive" if host.alive else "gone"
            seen = f"{host.silent_us / MICROSECONDS:.1f}"
            address = host.address or "-"
            capacity = "-" if host.capacity is None else host.capacity
            _print_row(
                host.name, host.role, host.version, seen, state, host.streams, address, capacity
            )

    _with_catalog(settings, work)


@main.command()
@_takes_settings
def broadcaster(settings: ServiceSettings) -> None:
    """Print the credentials for publishing events over HTTP: app, key, secret."""

    async def work(catalog: Catalog) -> None:
        first = await read_installation(catalog)
        for name, text in (
            ("app", APP),
            ("key", first.broadcaster_key),
            ("secret", first.broadcaster_secret),
        ):
            _print_row(name, text)

    _with_catalog(settings, work)


@main.command("console-link")
@click.option("--token", "number", type=int, help="Number of the token; default: the owner's.")
@_takes_settings
def print_console_link(*, number: int | None, settings: ServiceSettings) -> None:
    """Print an address that signs a browser in to the console, once and within 15 minutes."""
    http = settings.http
    base = public_base(http.public_url, "http", http.listen, parse(http.listen)[1], "")

    async def work(catalog: Catalog) -> None:
        try:
            click.echo(await console_link(catalog, base, catalog.clock.now_us(), number))
        except NoSuchToken as error:
            raise _Failure(str(error)) from error

    _with_catalog(settings, work)


@main.command("install")
@click.option("--system", is_flag=True, required=True, help="The services of this machine.")
def install_services(*, system: bool) -> None:  # noqa: ARG001  # its only meaning so far
    """Put user, folders, units and settings in place, where no package does, after each upgrade."""
    if os.geteuid() != 0:
        raise _Failure("only root can put services in place")
    program = Path(sys.prefix) / "bin" / "headend"
    try:
        require_visible((program, Path(__file__)))
        written = install_system(Path("/"), shared_files(), program)
        make_user_and_folders()
    except SystemInstallError as error:
        raise _Failure(str(error)) from error
    for line in (*written, f"next: /{SETTINGS}, then systemctl enable --now headend.service"):
        click.echo(line)


@main.group()
def token() -> None:
    """Manage the tokens of API callers."""


@token.command("create")
@click.argument("name")
@click.option("--project", type=int, help="Number of the project; default: all projects.")
@click.option("--write", is_flag=True, help="Allow changes, not only reading.")
@_takes_settings
def token_create(name: str, *, project: int | None, write: bool, settings: ServiceSettings) -> None:
    """Create a token and print it; it cannot be shown again."""
    try:
        checked = str(Name.parse(name))  # as in the API
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint="NAME") from error

    async def work(catalog: Catalog) -> None:
        now_us = catalog.clock.now_us()
        record, text = await catalog.tokens.add(checked, project, Change(now_us), write=write)
        _print_row(record.id, text)

    _with_catalog(settings, work)


@token.command("list")
@_takes_settings
def token_list(settings: ServiceSettings) -> None:
    """Print the tokens without their secrets: number, rights, project, name, and their maker."""

    async def work(catalog: Catalog) -> None:
        for record in await catalog.tokens.find_all():
            state = "revoked" if record.revoked_us else "write" if record.write else "read"
            project = record.project if record.project is not None else "all"
            maker = record.created_by if record.created_by is not None else "-"
            _print_row(record.id, state, project, record.name, maker)

    _with_catalog(settings, work)


@token.command("revoke")
@click.argument("number", type=int)
@click.option(
    "--descendants", is_flag=True, help="Also the tokens made with it, and those made with these."
)
@_takes_settings
def token_revoke(number: int, *, descendants: bool, settings: ServiceSettings) -> None:
    """Revoke a token."""

    async def work(catalog: Catalog) -> None:
        if await catalog.tokens.find(number) is None:
            raise _Failure(f"there is no token {number}")
        for record in await catalog.tokens.revoke(
            number, Change(catalog.clock.now_us()), descendants=descendants
        ):
            _print_row(record.id, "revoked", record.name)

    _with_catalog(settings, work)


@main.command()
@click.argument("url", metavar="RTMP_URL")
@click.option("--seconds", type=float, help="Seconds to publish; default: until Ctrl-C.")
@click.option("--size", default="1280x720", show_default=True, help=_SIZE_HELP)
@click.option("--fps", type=click.IntRange(1, 120), default=30, show_default=True)
def pattern(url: str, seconds: float | None, size: str, fps: int) -> None:
    """Publish a moving test picture with a clock and a tone."""
    width, _, height = size.partition("x")
    if not (width.isdigit() and height.isdigit()):
        raise click.BadParameter(_SIZE_HELP, param_hint="--size")
    order = {"url": url, "seconds": seconds, "size": [int(width), int(height)], "fps": fps}
    # The URL holds the stream key, and the arguments of a process are public: use a pipe.
    child = subprocess.Popen(  # our own interpreter and module
        [sys.executable, "-m", "transcode.engine.testsource.pattern"], stdin=subprocess.PIPE
    )
    try:
        if child.stdin is not None:
            child.stdin.write(json.dumps(order).encode() + b"\n")
            child.stdin.flush()
        sys.exit(child.wait())
    except KeyboardInterrupt:
        child.terminate()
        sys.exit(child.wait())


def _print_row(*fields: object) -> None:
    """Print fields with tabs between them; a title or name may be anything."""
    click.echo("\t".join(printable(str(each)) for each in fields))


def _with_catalog(settings: ServiceSettings, work: Callable[[Catalog], Any]) -> None:
    """Run `work` with the catalog of the settings."""

    async def open_and_work() -> None:
        async with open_catalog(catalog_location(settings), migrate=False) as catalog:
            await work(catalog)

    try:
        asyncio.run(open_and_work())
    except StorageError as error:
        raise _Failure(str(error)) from error
