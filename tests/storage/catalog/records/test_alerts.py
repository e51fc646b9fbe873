"""Which kinds the recipients of a project, and those of the installation, can get."""

from media.alerts import OF_PROJECTS, AlertKind
from storage.catalog.records.alerts import INSTALLATION, kinds_of


def test_the_installation_gets_all_and_a_project_those_of_its_streams_and_videos() -> None:
    assert kinds_of(INSTALLATION) == tuple(AlertKind)
    assert kinds_of(7) == OF_PROJECTS
