"""The settings of a project: its streams' defaults, players, labels, countries and tokens."""

from typing import Final

from litestar import Controller, Response, get
from litestar.di import NamedDependency
from litestar.params import FromQuery

from api.console.label_choice import BY_NAME
from api.console.page import Console
from api.http.auth import ApiRequest
from api.http.paging import read_query
from api.library.lookup import PROJECT, label_tag, player_tag, project_tag
from api.schemas.presenter import Presenter
from api.streams.presenter import present_settings, settings_tag
from storage.catalog import Catalog
from storage.catalog.records.common import Page, ProjectRecord, TokenRecord
from storage.catalog.records.settings import OwnerSettings

_MOST_NAMED: Final = 500  # players, tags and categories that the page lists
_MOST_RESTRICTED: Final = 100
_FRAGMENTS: Final = {
    "project": "_settings_project.html",
    "defaults": "_settings_defaults.html",
    "players": "_settings_players.html",
    "tags": "_settings_tags.html",
    "categories": "_settings_categories.html",
    "tokens": "_settings_tokens.html",
}


class SettingsPage(Controller):
    """The settings of a project."""

    path = "/{project_id:str}/settings"
    dependencies = PROJECT

    @get()
    async def show_settings(
        self,
        request: ApiRequest,
        project: NamedDependency[ProjectRecord],
        catalog: NamedDependency[Catalog],
        presenter: NamedDependency[Presenter],
        console: NamedDependency[Console],
        tokens: FromQuery[str | None] = None,
    ) -> Response[str]:
        """Show the settings; `tokens` is the page of the tokens."""
        number, size = project.id, _MOST_NAMED
        labels = catalog.labels
        record = await catalog.project_settings.find(number)
        return console.page(
            request,
            "settings.html",
            fragments=_FRAGMENTS,
            project=project,
            project_tag=project_tag(project),
            settings_tag=settings_tag(record or OwnerSettings()),
            defaults=present_settings(record, "project", presenter.addresses),
            player_tag=player_tag,
            label_tag=label_tag,
            players=await catalog.players.find_page(number, sort=BY_NAME, size=size),
            tags=await labels.find_page("tag", number, sort=BY_NAME, size=size),
            categories=await labels.find_page("category", number, sort=BY_NAME, size=size),
            restricted=await catalog.restrictions.find(number, _MOST_RESTRICTED),
            tokens=await _tokens(request, catalog, tokens or None),
            projects={each.id: each for each in await _projects(request, catalog)},
        )


async def _tokens(
    request: ApiRequest, catalog: Catalog, page: str | None
) -> Page[TokenRecord] | None:
    """Return a page of the tokens that the caller may manage; None if it manages none."""
    if not request.auth.write:
        return None
    number = read_query(search=None, sort_column=None, sort_order=None, page=page, columns=()).page
    return await catalog.tokens.find_page(reach=request.auth.project, page=number)


async def _projects(request: ApiRequest, catalog: Catalog) -> tuple[ProjectRecord, ...]:
    """Return the newest projects, for the names of those that tokens are for."""
    return (await catalog.projects.find_page(reach=request.auth.project)).items
