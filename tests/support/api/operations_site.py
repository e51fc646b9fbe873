"""The API with the installation report, over its own catalog and folder."""

from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

from api.app import create_app
from api.operations.report import LoggedProblem, SpareRoom
from headend.install.installation import catalog_location
from headend.roles.operations import InstallationReporter
from media.no_op import never
from storage.catalog import open_catalog
from storage.catalog.records.common import Change
from tests.support.api.application import ADDRESSES, BROADCASTER_KEY, NOW_US, ApiService
from tests.support.api.in_loop_client import client_of
from tests.support.headend.installed import installed


@asynccontextmanager
async def operations_site(
    folder: Path,
    *,
    problems: Callable[[], Awaitable[list[str]]],
    line: LoggedProblem,
    write: bool,
    reporter: type[InstallationReporter] = InstallationReporter,
    files_wait: Callable[[], bool] = never,
) -> AsyncGenerator[ApiService]:
    """Serve the API; the report has `problems` and the log `line`. The token may `write`."""
    settings = await installed(folder)
    async with open_catalog(catalog_location(settings), migrate=False) as catalog:
        report = reporter(
            settings,
            catalog,
            version="1.2.3",
            store=str(folder / "objects"),
            problems=problems,
            logged=lambda: [line],
            room=lambda: SpareRoom(more=3, basis="usual"),
        )
        app = create_app(
            catalog=catalog,
            addresses=ADDRESSES,
            broadcaster_key=BROADCASTER_KEY,
            operations=report,
            files_wait=files_wait,
        )
        _, token = await catalog.tokens.add("owner", None, Change(NOW_US), write=write)
        async with client_of(app) as client:
            owner = {"Authorization": f"Bearer {token}"}
            yield ApiService(client, catalog, "", BROADCASTER_KEY, owner)
