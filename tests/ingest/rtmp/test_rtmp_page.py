"""The page about RTMP names existing tests, and lists the codecs that the code accepts."""

import re
from pathlib import Path
from typing import Final

import pytest

from ingest.rtmp import dialogue
from ingest.rtmp.codecs import AUDIO_FOURCCS, VIDEO_FOURCCS

ROOT: Final = Path(__file__).parents[3]
PAGE: Final = (ROOT / "docs" / "rtmp.md").read_text()
NAMED: Final = sorted(set(re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", PAGE)))


@pytest.mark.parametrize(("file", "test"), NAMED)
def test_a_test_that_the_page_names_exists(file: str, test: str) -> None:
    text = (ROOT / file).read_text()
    assert re.search(rf"^(?:async )?def {test}\(", text, re.MULTILINE)


def test_every_case_has_its_row_with_a_test() -> None:
    rows = re.findall(r"^\| (\d+) \| [^|]+ \| [^|]+ \| (.+) \|$", PAGE, re.MULTILINE)
    assert [int(number) for number, _ in rows] == list(range(1, 47))
    assert all("::test_" in tests for _, tests in rows)


def test_the_codecs_on_the_page_are_those_that_are_taken() -> None:
    listed = re.findall(r"^\| `(....)` \|", PAGE, re.MULTILINE)
    assert sorted(listed) == sorted(
        fourcc.decode() for fourcc in {**VIDEO_FOURCCS, **AUDIO_FOURCCS}
    )


def test_capabilities_on_the_page_are_those_that_are_claimed() -> None:
    answer = dialogue.connect_result(1.0)
    assert b"capsEx\0\x40\x18\0\0\0\0\0\0" in answer  # 6.0
    assert "`capsEx` is 6" in PAGE
