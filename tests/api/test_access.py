"""Who may see what: the whole table."""

import pytest

from api.access import Access, decide
from storage.catalog.records import Shown


def shown(*, published: bool, hidden: bool) -> Shown:
    return Shown(
        hash="abcdefABCDEF", project=1, title="", description="",
        published=published, hidden=hidden, live=True,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("stream", "viewer", "owner"),
    [
        pytest.param(None, Access.NONE, Access.NONE, id="no such stream"),
        pytest.param(shown(published=True, hidden=False), Access.OPEN, Access.OPEN, id="published"),
        pytest.param(
            shown(published=False, hidden=False), Access.NONE, Access.OWNER, id="not yet live"
        ),
        pytest.param(
            shown(published=False, hidden=True), Access.NONE, Access.OWNER, id="unpublished"
        ),
        pytest.param(
            shown(published=True, hidden=True), Access.NONE, Access.OWNER, id="unpublished wins"
        ),
    ],
)
def test_who_may_see_a_stream(stream: Shown | None, viewer: Access, owner: Access) -> None:
    assert decide(stream, owner=False) is viewer
    assert decide(stream, owner=True) is owner
