"""Which kinds of alerts there are; their names are stored, and those of the API."""

import pytest

from media.alerts import OF_PROJECTS, AlertKind, is_address


def test_names_are_plain_and_projects_have_those_of_their_streams_and_videos() -> None:
    assert [str(kind) for kind in AlertKind] == [
        "primary_lost", "off_air", "video_failed", "disk", "certificate", "backup",
    ]  # fmt: skip
    assert [kind.value for kind in OF_PROJECTS] == ["primary_lost", "off_air", "video_failed"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("ops@example.org", True),
        ("a.b+c@xn--bcher-kva.example", True),
        ("root@localhost", True),
        ("", False),
        ("a@b@c", False),
        (".a@b.example", False),
        ("a@b..example", False),
        ("a@b.example\n", False),
        ("a b@c.example", False),
        ('"a"@c.example', False),
        ("a" * 243 + "@c.example", True),
        ("a" * 245 + "@c.example", False),
    ],
)
def test_an_address_is_what_mail_servers_take(text: str, expected: bool) -> None:
    assert is_address(text) is expected
