"""Which kinds of alerts there are; their names are stored, and those of the API."""

from media.alerts import OF_PROJECTS, AlertKind


def test_names_are_plain_and_projects_have_those_of_their_streams_and_videos() -> None:
    assert [str(kind) for kind in AlertKind] == [
        "primary_lost", "off_air", "video_failed", "disk", "certificate", "backup",
    ]  # fmt: skip
    assert [kind.value for kind in OF_PROJECTS] == ["primary_lost", "off_air", "video_failed"]
