"""Whether operators get mail: the mail server is asked, and what waits is looked at."""

import asyncio
from typing import Final

from api.operations.report import Finding
from headend.config.settings import ServiceSettings
from media.ticks import MICROSECONDS
from storage.catalog import Catalog

_TOPIC: Final = "mail"
_SECONDS: Final = 10.0
# A mail server that restarts, or asks for patience with strangers, takes no longer.
_LATE_US: Final = 3600 * MICROSECONDS


async def check_mail(settings: ServiceSettings, catalog: Catalog, now_us: int) -> Finding:
    """Check that what operators are to be told can be mailed; no mail is sent.

    Raises:
        StorageError: the catalog does not answer.
    """
    wanted = await catalog.recipients.is_any()
    if not settings.mail.server:
        if not wanted:
            return _well("no mail server is set, and nobody is to get mail")
        return _act("addresses are to get mail, and no mail server is set: mail.server")
    oldest_us = await catalog.mailings.find_oldest_us()
    if oldest_us is not None and now_us - oldest_us > _LATE_US:
        state = await catalog.mailings.find_state(None)
        hours = (now_us - oldest_us) // _LATE_US
        why = f": {state.problem}" if state.problem else ""
        return _act(f"what was to be mailed {hours} hours ago is not sent yet{why}")
    # With an SMTP client.
    from headend.config.smtp_server import smtp_server  # noqa: PLC0415 # see above
    from notify.smtp import MailNotSent, greet  # noqa: PLC0415 # see above

    try:
        async with asyncio.timeout(_SECONDS):
            await greet(smtp_server(settings.mail), step_seconds=_SECONDS)
    except MailNotSent as error:
        return _act(str(error))
    except TimeoutError:
        return _act("the mail server did not answer in time")
    if not wanted:
        return _well("the mail server answers, and nobody is to get mail: see the console")
    return _well("the mail server answers")


def _well(text: str) -> Finding:
    return Finding(topic=_TOPIC, verdict="well", text=text)


def _act(text: str) -> Finding:
    return Finding(topic=_TOPIC, verdict="act", text=text)
