"""Sends the mails that are due, until cancelled; any number of processes may do so.

Each mail is leased in the catalog (`storage.catalog.alerts.mailings`), so one process sends it. It
stays there until the server has accepted it: a process that stops gives it back, and the lease of
one that is killed runs out. What a server does, or does not, costs nothing but a mail's time: up to
`AT_ONCE` are on their way, and whatever fails is tried again later.
"""

import asyncio
import logging
import secrets
from collections.abc import Callable, Sequence
from typing import Final

from media.ticks import MICROSECONDS
from notify.message import alert_mail, trial_mail
from notify.smtp import STEP_SECONDS, TEXT_SECONDS, MailNotSent, SendProgress, SmtpServer, send
from storage.catalog import Catalog
from storage.catalog.alerts.mailings import LEASE_US
from storage.catalog.records.alerts import AlertBundle, MailAnswer
from storage.errors import StorageError
from storage.workers.catalog_retry import longest_wait, until_answered

log = logging.getLogger(__name__)

AT_ONCE: Final = 4  # a server that answers slowly must not hold up all others
_POLL_SECONDS: Final = 5.0
_HEARTBEAT_SECONDS: Final = LEASE_US / MICROSECONDS / 3
_RELEASE_SECONDS: Final = 2.0
# Someone waits for the answer at a page, which gives up after a minute.
_TRIAL_SECONDS: Final = 20.0
_OWNER_BYTES: Final = 8


class Mailer:
    """Sends what is due through one mail server.

    `console` is the address of the console. `step_seconds` and `text_seconds` are as in
    `notify.smtp.send`.
    """

    def __init__(
        self,
        catalog: Catalog,
        server: SmtpServer,
        console: str,
        now_us: Callable[[], int],
        *,
        step_seconds: float = STEP_SECONDS,
        text_seconds: float = TEXT_SECONDS,
    ) -> None:
        self._catalog = catalog
        self._server = server
        self._console = console
        self._now_us = now_us
        self._seconds = (step_seconds, text_seconds)
        self._sending = 0
        self._failed = False
        self._is_away = False

    @property
    def sending(self) -> int:
        """How many mails are on their way."""
        return self._sending

    async def run(self) -> None:
        """Send what is due, again and again."""
        async with asyncio.TaskGroup() as mails:
            while True:
                await self._begin_due(mails)
                await asyncio.sleep(_POLL_SECONDS)

    async def send_due(self) -> None:
        """Send what is due now, and return when each of these mails is sent or has failed."""
        async with asyncio.TaskGroup() as mails:
            await self._begin_due(mails)

    async def _begin_due(self, mails: asyncio.TaskGroup) -> None:
        try:
            await self._catalog.conditions.tell_due(self._now_us())
            while self._sending < AT_ONCE:
                owner = secrets.token_hex(_OWNER_BYTES)
                bundle = await self._catalog.mailings.lease_due(owner, self._now_us())
                if bundle is None:
                    break
                self._sending += 1
                mails.create_task(self._deliver(bundle))
            self._is_away = False
        except StorageError as error:
            if not self._is_away:  # logged once per outage
                log.warning("mails not looked for", extra={"cause": str(error)})
            self._is_away = True

    async def _deliver(self, bundle: AlertBundle) -> None:
        """Send a mail, and record how that ended."""
        progress = SendProgress()
        try:
            async with asyncio.TaskGroup() as both:
                beats = both.create_task(self._keep(bundle))
                await self._try(bundle, progress)
                beats.cancel()
        except asyncio.CancelledError:
            await self._release(bundle, is_unsure=progress.is_unsure)
            raise
        finally:
            self._sending -= 1

    async def _try(self, bundle: AlertBundle, progress: SendProgress) -> None:
        try:
            await self._attempt(bundle, progress)
        except StorageError as error:
            # The lease runs out, and the mail is sent again.
            log.warning("mail not recorded", extra={"cause": str(error)})

    async def _attempt(self, bundle: AlertBundle, progress: SendProgress) -> None:
        facts = {"kind": bundle.kind.value, "alerts": bundle.total, "scope": bundle.scope}
        mailings, (step, text) = self._catalog.mailings, self._seconds
        try:
            mail = alert_mail(
                bundle, sender=self._server.sender, console=self._console, now_us=self._now_us()
            )
            await send(
                self._server,
                mail,
                bundle.address,
                progress,
                step_seconds=step,
                text_seconds=text,
            )
        except MailNotSent as error:
            dropped = await mailings.fail(
                bundle, self._now_us(), str(error), is_unsure=error.is_unsure
            )
            if not self._failed or dropped:
                log.warning("mail not sent", extra={**facts, "cause": str(error), "lost": dropped})
            self._failed = True
            return
        self._failed = False
        log.info("mail sent", extra=facts)
        # A mail that was accepted, and is not on record, would be sent twice.
        progress.is_unsure = True
        await until_answered(
            lambda: mailings.finish(bundle, self._now_us()),
            within=longest_wait(LEASE_US),
            facts=facts,
        )
        progress.is_unsure = False

    async def _keep(self, bundle: AlertBundle) -> None:
        """Extend a lease until cancelled; a database that does not answer is asked again."""
        while True:
            await asyncio.sleep(_HEARTBEAT_SECONDS)
            try:
                await self._catalog.mailings.extend(bundle, self._now_us())
            except StorageError as error:
                log.info("lease of a mail not extended", extra={"cause": str(error)})

    async def _release(self, bundle: AlertBundle, *, is_unsure: bool) -> None:
        try:
            async with asyncio.timeout(_RELEASE_SECONDS):
                await self._catalog.mailings.release(bundle, is_unsure=is_unsure)
        except (StorageError, TimeoutError) as error:
            log.info("mail not given back", extra={"cause": str(error)})


class MailTrial:
    """Sends mails by which operators try out a mail server."""

    def __init__(self, server: SmtpServer, console: str, now_us: Callable[[], int]) -> None:
        self._server = server
        self._console = console
        self._now_us = now_us

    async def __call__(self, addresses: Sequence[str]) -> tuple[MailAnswer, ...]:
        """Send one to each address, all at once, and return what the server answered."""
        async with asyncio.TaskGroup() as mails:
            tasks = [mails.create_task(self._try(each)) for each in addresses]
        return tuple(task.result() for task in tasks)

    async def _try(self, address: str) -> MailAnswer:
        mail = trial_mail(
            address, sender=self._server.sender, console=self._console, now_us=self._now_us()
        )
        try:
            answer = await send(
                self._server,
                mail,
                address,
                SendProgress(),
                step_seconds=_TRIAL_SECONDS,
                text_seconds=_TRIAL_SECONDS,
            )
        except MailNotSent as error:
            return MailAnswer(to=address, accepted=False, answer=str(error))
        return MailAnswer(to=address, accepted=True, answer=answer)
