"""The page of the installation: hosts, machine, queue, disk, recent errors, doctor, versions."""

from typing import Final

from litestar import Response, get
from litestar.di import NamedDependency
from litestar.params import FromQuery

from api.console.page import GivenConsole, is_fragment_request
from api.http.auth import needs_all_projects
from api.http.operation import PlainCall
from api.http.parameters import missing
from api.library.alert_mail import GivenTests, mail_tag, show_mail
from api.operations.report import Finding, OperationsReporter
from storage.catalog.records.alerts import INSTALLATION, AlertSettings

_FRAGMENTS: Final = {"installation": "_operations.html", "mail": "_operations_mail.html"}


@get("/operations", guards=[needs_all_projects])
async def operations_page(
    plain: PlainCall,
    operations: NamedDependency[OperationsReporter | None],
    console: GivenConsole,
    mail_tests: GivenTests,
    examine: FromQuery[str | None] = None,
) -> Response[str]:
    """Show the installation; with `examine` also what the doctor finds, which may take a while.

    Raises:
        ApiError: 404 if this process cannot report on the installation.
    """
    if operations is None:
        raise missing("page")
    findings: list[Finding] | None = None
    too_slow = False
    # The fragment that is fetched every few seconds must not examine again.
    if examine and not is_fragment_request(plain.request):
        try:
            findings = list(await operations.examine())
        except TimeoutError:
            too_slow = True
    mail = await plain.catalog.recipients.find(INSTALLATION) or AlertSettings()
    return console.page(
        plain.request,
        "operations.html",
        fragments=_FRAGMENTS,
        mail=await show_mail(plain.catalog, INSTALLATION, mail, mail_tests),
        mail_tag=mail_tag(mail),
        report=await operations.report(),
        findings=findings,
        too_slow=too_slow,
    )
