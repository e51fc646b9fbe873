"""What `headend backup` and `headend restore` print, and how they end."""

import asyncio
import sys
import time
from collections.abc import Callable
from typing import Final

import click

from headend.config.settings import ServiceSettings
from headend.install.backup import BackupMade, check_backups, make_backup
from headend.install.backup_place import Place, backup_place, open_reader
from headend.install.findings import size_text
from headend.install.restore import restore
from headend.printable import printable
from storage.backups.checking import Checked, CheckProgress
from storage.backups.media_pass import PassProgress
from storage.backups.restoring import RestoreProgress
from storage.backups.retention import Keep

_MOST_SHOWN: Final = 50
# A terminal gets a line that changes, a log one now and then.
_TERMINAL_SECONDS: Final = 0.2
_LOG_SECONDS: Final = 60.0


class _Progress:
    """Shows a text that changes all the time."""

    def __init__(self) -> None:
        self._terminal = sys.stderr.isatty()
        self._every = _TERMINAL_SECONDS if self._terminal else _LOG_SECONDS
        self._next = time.monotonic() + (0.0 if self._terminal else _LOG_SECONDS)
        self._shown = False

    def show(self, text: Callable[[], str]) -> None:
        if time.monotonic() < self._next:
            return
        self._next = time.monotonic() + self._every
        self._shown = self._terminal
        click.echo(f"\r{text():<70}" if self._terminal else text(), err=True, nl=not self._terminal)

    def end(self) -> None:
        if self._shown:
            click.echo(err=True)


def run_backup(  # noqa: PLR0913  # the options of a command
    settings: ServiceSettings,
    *,
    place: str | None,
    checks: bool,
    lists: bool,
    keep_daily: int | None,
    keep_weekly: int | None,
    keep_monthly: int | None,
    endpoint: str | None,
    region: str | None,
) -> int:
    """Make a backup, or check or print those that there are; return the exit code.

    It is 1 if something is missing or damaged.

    Raises:
        StorageError: it cannot be done.
    """
    where = backup_place(settings, place, endpoint=endpoint, region=region)
    if lists:
        return _print_all(where)
    if checks:
        return _check(settings, where)
    ours = settings.backup
    keep = Keep(
        daily=ours.keep_daily if keep_daily is None else keep_daily,
        weekly=ours.keep_weekly if keep_weekly is None else keep_weekly,
        monthly=ours.keep_monthly if keep_monthly is None else keep_monthly,
    )
    progress = _Progress()

    def report(now: PassProgress) -> None:
        progress.show(
            lambda: (
                f"{now.folders:,} of {now.of_folders:,} folders, {now.objects:,} objects,"
                f" {now.copied:,} copied, {size_text(now.copied_bytes)}"
            )
        )

    try:
        made = asyncio.run(make_backup(settings, where, keep, report))
    finally:
        progress.end()
    return _print_made(made, where)


def _print_made(made: BackupMade, where: Place) -> int:
    backup = made.backup
    click.echo(
        f"backup {backup.name} in {where}: {backup.objects:,} objects, {size_text(backup.bytes)};"
        f" copied {made.copied:,} now, {size_text(made.copied_bytes)}"
    )
    if made.pruned:
        click.echo(f"removed {made.pruned:,} older backups, and {made.removed:,} objects of these")
    for stream in made.torn:
        click.echo(f"{stream}: its playlists list segments that the store does not have", err=True)
    if not made.missing:
        return 0
    click.echo(
        f"{len(made.missing):,} files of the catalog are missing in the store, too (`headend"
        " doctor`): they may be in older backups, of which none was removed",
        err=True,
    )
    for each in made.missing[:_MOST_SHOWN]:
        click.echo(f"  {printable(each.address)}: {each.what}", err=True)
    return 1


def _print_all(where: Place) -> int:
    for backup in asyncio.run(open_reader(where).find_all()):
        fields = (
            backup.name,
            f"{backup.objects} objects",
            size_text(backup.bytes),
            f"Headend {backup.version}",
            f"{backup.missing} missing" if backup.missing else "whole",
        )
        click.echo("\t".join(printable(field) for field in fields))
    return 0


def _check(settings: ServiceSettings, where: Place) -> int:
    progress = _Progress()

    def report(now: CheckProgress) -> None:
        progress.show(
            lambda: f"{now.objects:,} of {now.of_objects:,} objects, {size_text(now.bytes)}"
        )

    try:
        checked = asyncio.run(check_backups(settings, where, report))
    finally:
        progress.end()
    return _print_checked(checked, where)


def _print_checked(checked: Checked, where: Place) -> int:
    click.echo(
        f"read {checked.backups:,} backups in {where}: {checked.objects:,} objects,"
        f" {size_text(checked.bytes)}"
    )
    if not checked.damaged:
        click.echo("all are as they were written")
        return 0
    click.echo(
        f"{len(checked.damaged):,} are missing or not as they were written; the next backup copies"
        " again what the store still has:",
        err=True,
    )
    for each in checked.damaged[:_MOST_SHOWN]:
        click.echo(f"  {each.backup}: {printable(each.name)}", err=True)
    return 1


def run_restore(
    settings: ServiceSettings,
    *,
    place: str | None,
    at: str | None,
    endpoint: str | None,
    region: str | None,
) -> None:
    """Restore a backup, and print what is where.

    Raises:
        DataFolderError: another process uses the data folder.
        StorageError: it cannot be done.
    """
    where = backup_place(settings, place, endpoint=endpoint, region=region)
    progress = _Progress()

    def report(now: RestoreProgress) -> None:
        progress.show(
            lambda: f"{now.objects:,} of {now.of_objects:,} objects, {size_text(now.bytes)}"
        )

    try:
        restored = asyncio.run(restore(settings, where, at, report))
    finally:
        progress.end()
    backup = restored.backup
    click.echo(
        f"restored {backup.name}: {backup.objects:,} objects, {size_text(backup.bytes)}, to"
        f" {restored.media}, and the database to {restored.catalog}"
    )
    click.echo("`headend doctor` examines it; start Headend with the same settings")
