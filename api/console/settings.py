"""The settings of a project: its streams' defaults, players, labels, countries and tokens."""

from typing import Final

from litestar import Response, get
from litestar.params import FromQuery

from api.console.label_choice import BY_NAME
from api.console.page import GivenConsole
from api.http.operation import Call
from api.http.parameters import read_query
from api.library.alert_mail import GivenTests, mail_tag, show_mail
from api.library.lookup import PROJECT, ProjectCall, label_tag, player_tag, project_tag
from api.streams.presenter import present_settings, settings_tag
from storage.catalog.records.common import Page, ProjectRecord, TokenRecord

_MOST_NAMED: Final = 500  # players, tags and categories that the page lists
_MOST_RESTRICTED: Final = 100
_FRAGMENTS: Final = {
    "project": "_settings_project.html",
    "defaults": "_settings_defaults.html",
    "mail": "_settings_mail.html",
    "players": "_settings_players.html",
    "tags": "_settings_tags.html",
    "categories": "_settings_categories.html",
    "tokens": "_settings_tokens.html",
}


@get("/{project_id:str}/settings", dependencies=PROJECT)
async def settings_page(
    call: ProjectCall,
    console: GivenConsole,
    mail_tests: GivenTests,
    tokens: FromQuery[str | None] = None,
) -> Response[str]:
    """Show the settings; `tokens` is the page of the tokens."""
    number, size = call.record.id, _MOST_NAMED
    labels = call.catalog.labels
    record = call.still_there(await call.catalog.project_settings.find(number))
    mail = call.still_there(await call.catalog.recipients.find(number))
    return console.page(
        call.request,
        "settings.html",
        fragments=_FRAGMENTS,
        project=call.record,
        project_tag=project_tag(call.record),
        settings_tag=settings_tag(record),
        defaults=present_settings(record, call.addresses),
        mail=await show_mail(call.catalog, number, mail, mail_tests),
        mail_tag=mail_tag(mail),
        player_tag=player_tag,
        label_tag=label_tag,
        players=await call.catalog.players.find_page(number, sort=BY_NAME, size=size),
        tags=await labels.find_page("tag", number, sort=BY_NAME, size=size),
        categories=await labels.find_page("category", number, sort=BY_NAME, size=size),
        restricted=await call.catalog.restrictions.find(number, _MOST_RESTRICTED),
        tokens=await _tokens(call, tokens or None),
        projects={each.id: each for each in await _projects(call)},
    )


async def _tokens(call: Call[ProjectRecord], page: str | None) -> Page[TokenRecord] | None:
    """Return a page of the tokens that the caller may manage; None if it manages none."""
    if not call.caller.write:
        return None
    number = read_query(page=page).page
    return await call.catalog.tokens.find_page(reach=call.caller.project, page=number)


async def _projects(call: Call[ProjectRecord]) -> tuple[ProjectRecord, ...]:
    """Return the newest projects, for the names of those that tokens are for."""
    return (await call.catalog.projects.find_page(reach=call.caller.project)).items
