"""Who gets mail of alerts: of a project, and of the installation as a whole.

What is told, and how mails are bundled, is on the page `docs/notifications.md`.
"""

import time
from collections.abc import Mapping
from http import HTTPStatus
from typing import Annotated, Final

import msgspec
from litestar import Controller, Response
from litestar.di import NamedDependency

from api.http.conditional import IfMatch, edit_tag, tagged, unless_edited
from api.http.errors import ApiError, invalid
from api.http.operation import Call, PlainCall, commands, edits, shows
from api.library.lookup import PROJECT, ProjectCall
from api.ports import MailTest
from media.alerts import AlertKind, is_address
from storage.catalog import Catalog
from storage.catalog.records.alerts import (
    INSTALLATION,
    MOST_RECIPIENTS,
    AlertEdit,
    AlertSettings,
    MailAnswer,
    kinds_of,
)

_ERRORS: Final = (HTTPStatus.PRECONDITION_FAILED,)
# Enough to try a mail server out; whoever may change a project's addresses shall not flood others.
TEST_PAUSE_SECONDS: Final = 10.0
_NO_SERVER: Final = "No mail server is set: mail.server."
_NO_ADDRESS: Final = "No address is set."

_Addresses = Annotated[
    list[str], msgspec.Meta(max_length=MOST_RECIPIENTS, description="as `ops@example.org`")
]


class ProjectAlertKinds(msgspec.Struct, frozen=True, kw_only=True):
    """The kinds of alerts of a project, and whether each is mailed."""

    primary_lost: bool
    off_air: bool
    video_failed: bool


class InstallationAlertKinds(msgspec.Struct, frozen=True, kw_only=True):
    """The kinds of alerts of the installation, with those of all projects."""

    primary_lost: bool
    off_air: bool
    video_failed: bool
    disk: bool
    certificate: bool
    backup: bool


class ProjectKindSwitches(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The kinds to switch on or off."""

    primary_lost: bool | msgspec.UnsetType = msgspec.UNSET
    off_air: bool | msgspec.UnsetType = msgspec.UNSET
    video_failed: bool | msgspec.UnsetType = msgspec.UNSET


class InstallationKindSwitches(
    msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True
):
    """The kinds to switch on or off."""

    primary_lost: bool | msgspec.UnsetType = msgspec.UNSET
    off_air: bool | msgspec.UnsetType = msgspec.UNSET
    video_failed: bool | msgspec.UnsetType = msgspec.UNSET
    disk: bool | msgspec.UnsetType = msgspec.UNSET
    certificate: bool | msgspec.UnsetType = msgspec.UNSET
    backup: bool | msgspec.UnsetType = msgspec.UNSET


class ProjectMailEdit(msgspec.Struct, frozen=True, kw_only=True):
    """What of a project's mail is to change; `to` replaces all addresses."""

    to: _Addresses | msgspec.UnsetType = msgspec.UNSET
    kinds: ProjectKindSwitches = ProjectKindSwitches()


class InstallationMailEdit(msgspec.Struct, frozen=True, kw_only=True):
    """What of the installation's mail is to change; `to` replaces all addresses."""

    to: _Addresses | msgspec.UnsetType = msgspec.UNSET
    kinds: InstallationKindSwitches = InstallationKindSwitches()


class ProjectMail(msgspec.Struct, frozen=True, kw_only=True):
    """Who gets mail of a project, and of what.

    `is_set_up`: a mail server is set. `waiting` alerts are still to be mailed; `problem` is why the
    last attempt failed.
    """

    to: list[str]
    kinds: ProjectAlertKinds
    is_set_up: bool
    waiting: int
    problem: str | None


class InstallationMail(msgspec.Struct, frozen=True, kw_only=True):
    """Who gets mail of the installation, and of what; as that of a project."""

    to: list[str]
    kinds: InstallationAlertKinds
    is_set_up: bool
    waiting: int
    problem: str | None


class ProjectMailData(msgspec.Struct, frozen=True, kw_only=True):
    """The answer to showing a project's mail."""

    data: ProjectMail


class InstallationMailData(msgspec.Struct, frozen=True, kw_only=True):
    """The answer to showing the installation's mail."""

    data: InstallationMail


class ProjectMailAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """The answer to changing a project's mail."""

    message: str
    mail: ProjectMail


class InstallationMailAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """The answer to changing the installation's mail."""

    message: str
    mail: InstallationMail


class MailTestAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """What the mail server answered for each address, in words."""

    message: str
    answers: list[MailAnswer]


class MailTests:
    """Sends test mails, each scope's no oftener than every `TEST_PAUSE_SECONDS`.

    `send` is None where no mail server is set.
    """

    def __init__(self, send: MailTest | None) -> None:
        self._send = send
        self._sent_at: dict[int, float] = {}

    @property
    def is_set_up(self) -> bool:
        """Whether a mail server is set."""
        return self._send is not None

    async def send(self, scope: int, addresses: tuple[str, ...]) -> MailTestAnswer:
        """Send a mail to each address.

        Raises:
            ApiError: 409 if there is no server or no address, 429 if one was sent just now.
        """
        if self._send is None or not addresses:
            problem = _NO_SERVER if self._send is None else _NO_ADDRESS
            raise ApiError(HTTPStatus.CONFLICT, problem)
        now = time.monotonic()
        if now - self._sent_at.get(scope, -TEST_PAUSE_SECONDS) < TEST_PAUSE_SECONDS:
            headers = {"Retry-After": str(round(TEST_PAUSE_SECONDS))}
            message = "A test mail was sent just now."
            raise ApiError(HTTPStatus.TOO_MANY_REQUESTS, message, headers=headers)
        self._sent_at[scope] = now
        answers = list(await self._send(addresses))
        words = [f"{each.to}: {each.answer}" for each in answers]
        return MailTestAnswer(message=" ".join(words), answers=answers)


GivenTests = NamedDependency[MailTests]


def mail_tag(settings: AlertSettings) -> str:
    """Return the tag of what can be edited of a scope's mail."""
    return edit_tag(settings.to, settings.off)


class ProjectMailController(Controller):
    """Mail of one project."""

    path = "/projects/{project_id:str}/mail"
    tags = ("projects",)
    dependencies = PROJECT

    @shows("Show who gets mail of a project")
    async def show_project_mail(
        self, call: ProjectCall, mail_tests: GivenTests
    ) -> Response[ProjectMailData]:
        """Show the addresses that are told of a project's alerts, and of which kinds."""
        settings = call.still_there(await call.catalog.recipients.find(call.record.id))
        shown = await _project_mail(call, settings, mail_tests)
        return tagged(ProjectMailData(data=shown), mail_tag(settings))

    @edits("Set who gets mail of a project", ProjectMailEdit, errors=_ERRORS)
    async def change_project_mail(
        self, call: ProjectCall, mail_tests: GivenTests, if_match: IfMatch = None
    ) -> Response[ProjectMailAnswer]:
        """Set the addresses that are told of a project's alerts, and of which kinds.

        What waits for an address that is left out, or of a kind that is switched off, is dropped.
        """
        edit = await call.body(ProjectMailEdit)
        changed = await call.catalog.recipients.change(
            call.record.id,
            _edit(edit.to, edit.kinds),
            call.change(),
            check=unless_edited(if_match, mail_tag),
        )
        settings = call.still_there(changed)
        mail = await _project_mail(call, settings, mail_tests)
        answer = ProjectMailAnswer(message="Mail updated.", mail=mail)
        return tagged(answer, mail_tag(settings))

    @commands("Send a test mail of a project", "/test", errors=[HTTPStatus.CONFLICT])
    async def test_project_mail(self, call: ProjectCall, mail_tests: GivenTests) -> MailTestAnswer:
        """Send a mail to each address of the project, and answer with what the mail server said."""
        settings = call.still_there(await call.catalog.recipients.find(call.record.id))
        return await mail_tests.send(call.record.id, settings.to)


class InstallationMailController(Controller):
    """Mail of the installation as a whole."""

    path = "/operations/mail"
    tags = ("operations",)

    @shows("Show who gets mail of the installation", all_projects=True)
    async def show_installation_mail(
        self, plain: PlainCall, mail_tests: GivenTests
    ) -> Response[InstallationMailData]:
        """Show the addresses that are told of all alerts, and of which kinds; this takes a token
        for all projects.
        """
        settings = await plain.catalog.recipients.find(INSTALLATION) or AlertSettings()
        shown = await _installation_mail(plain, settings, mail_tests)
        return tagged(InstallationMailData(data=shown), mail_tag(settings))

    @edits(
        "Set who gets mail of the installation",
        InstallationMailEdit,
        errors=_ERRORS,
        all_projects=True,
    )
    async def change_installation_mail(
        self, plain: PlainCall, mail_tests: GivenTests, if_match: IfMatch = None
    ) -> Response[InstallationMailAnswer]:
        """Set the addresses that are told of all alerts, and of which kinds; this takes a token for
        all projects.
        """
        edit = await plain.body(InstallationMailEdit)
        changed = await plain.catalog.recipients.change(
            INSTALLATION,
            _edit(edit.to, edit.kinds),
            plain.change(),
            check=unless_edited(if_match, mail_tag),
        )
        settings = changed or AlertSettings()
        mail = await _installation_mail(plain, settings, mail_tests)
        answer = InstallationMailAnswer(message="Mail updated.", mail=mail)
        return tagged(answer, mail_tag(settings))

    @commands(
        "Send a test mail of the installation",
        "/test",
        errors=[HTTPStatus.CONFLICT],
        all_projects=True,
    )
    async def test_installation_mail(
        self, plain: PlainCall, mail_tests: GivenTests
    ) -> MailTestAnswer:
        """Send a mail to each address of the installation, and answer with what the mail server
        said; this takes a token for all projects.
        """
        settings = await plain.catalog.recipients.find(INSTALLATION) or AlertSettings()
        return await mail_tests.send(INSTALLATION, settings.to)


def _edit(to: list[str] | msgspec.UnsetType, switches: msgspec.Struct) -> AlertEdit:
    """Return the edit that a body describes.

    Raises:
        ApiError: 422 if one of the addresses is none.
    """
    kinds: dict[AlertKind, bool] = {}
    for name in switches.__struct_fields__:
        value = getattr(switches, name)
        if value is not msgspec.UNSET:
            kinds[AlertKind(name)] = value
    if to is msgspec.UNSET:
        return AlertEdit(kinds=kinds)
    strange = [each for each in to if not is_address(each)]
    if strange:
        raise invalid({"to": [f"{strange[0][:64]!r} is no address for mail."]})
    return AlertEdit(to=tuple(dict.fromkeys(to)), kinds=kinds)


async def show_mail(
    catalog: Catalog, scope: int, settings: AlertSettings, tests: MailTests
) -> Mapping[str, object]:
    """Return who gets mail of a scope, with the keys of its body, as the console shows it."""
    state = await catalog.mailings.find_state(scope)
    return {
        "to": list(settings.to),
        "kinds": {kind.value: kind not in settings.off for kind in kinds_of(scope)},
        "is_set_up": tests.is_set_up,
        "waiting": state.waiting,
        "problem": state.problem,
    }


async def _project_mail(
    call: ProjectCall, settings: AlertSettings, tests: MailTests
) -> ProjectMail:
    scope = call.record.id
    return msgspec.convert(await show_mail(call.catalog, scope, settings, tests), ProjectMail)


async def _installation_mail(
    plain: Call[None], settings: AlertSettings, tests: MailTests
) -> InstallationMail:
    shown = await show_mail(plain.catalog, INSTALLATION, settings, tests)
    return msgspec.convert(shown, InstallationMail)
