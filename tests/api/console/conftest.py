"""A browser at the console."""

import pytest

from tests.support.api.application import ApiService
from tests.support.api.console_client import Browser


@pytest.fixture
async def browser(api_service: ApiService) -> Browser:
    """A browser in which the owner has signed in."""
    browser = Browser(api_service)
    await browser.sign_in()
    return browser
