"""A catalog with a project, whose stream and installation have recipients."""

import pytest

from storage.catalog import Catalog
from storage.catalog.records.alerts import INSTALLATION, AlertEdit
from storage.catalog.records.common import Change, StreamRecord


@pytest.fixture
async def stream(catalog: Catalog) -> StreamRecord:
    """A stream of the first project, of which both its owner and the operator get mail."""
    stream = (await catalog.installation.first_start(1)).stream
    assert stream is not None
    for scope, address in ((1, "owner@a.example"), (INSTALLATION, "ops@a.example")):
        edit = AlertEdit(to=(address,))
        assert await catalog.recipients.change(scope, edit, Change(2)) is not None
    return stream
