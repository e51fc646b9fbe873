"""The bill of materials and the notices of a release."""

import datetime
import json
from pathlib import Path

import pytest
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator

from scripts.materials import bill, bundled_libraries, installed, licence_of, notices
from tests.support.rooms import ROOT

LOCK = (ROOT / "web" / "package-lock.json").read_text()
PINS = (ROOT / "requirements" / "runtime.txt").read_text()
TIME = datetime.datetime(2026, 11, 29, tzinfo=datetime.UTC)


@pytest.fixture(scope="module")
def document() -> str:
    return bill("0.2.1", installed(PINS), LOCK, TIME)


def test_two_of_one_release_are_equal(document: str) -> None:
    assert bill("0.2.1", installed(PINS), LOCK, TIME) == document
    assert bill("0.2.2", installed(PINS), LOCK, TIME) != document


def test_it_is_valid_by_the_standards_own_schema(document: str) -> None:
    validator = JsonStrictValidator(SchemaVersion.V1_6)
    assert validator.validate_str(document) is None
    assert validator.validate_str(document.replace('"components"', '"component"')) is not None


def test_it_names_what_runs_and_not_what_builds(document: str) -> None:
    components = {each["name"]: each for each in json.loads(document)["components"]}
    assert {"av", "litestar", "psycopg-binary", "hls.js", "@picocss/pico"} <= components.keys()
    assert not {"esbuild", "typescript", "hatchling", "pytest"} & components.keys()
    within = {each["name"]: each for each in components["av"]["components"]}
    assert {"FFmpeg", "libx264", "libx265"} <= within.keys()
    assert "GPL-2.0-or-later" in json.dumps(within["libx264"]["licenses"])


def test_each_package_that_runs_has_a_licence_and_its_text() -> None:
    distributions = installed(PINS)
    assert len(distributions) > 40
    assert [each.name for each in distributions if not licence_of(each)] == []
    text = notices(distributions, "of the pages")
    assert text.endswith("of the pages")
    for each in distributions:
        assert f"\n{each.name} {each.version} (" in text


def test_a_library_of_a_wheel_is_read_by_its_name(tmp_path: Path) -> None:
    for name in ("libx264-d6533a8d.so.165", "libmp3lame-8f9e436f.so.0.0.0", "other.txt"):
        (tmp_path / name).touch()
    assert list(bundled_libraries(tmp_path)) == [("libmp3lame", "0.0.0"), ("libx264", "165")]
