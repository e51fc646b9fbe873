"""The list of a film's preview pictures."""

import re
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from storage.objects.disk import DiskObjects
from transcode.protocol.messages import Previews
from transcode.vod.images import VodImages, preview_list, store_images

CUE = re.compile(r"(\d\d):(\d\d):(\d\d)\.(\d{3}) --> (\d\d):(\d\d):(\d\d)\.(\d{3})\n(\S+)")


def previews(*times: int, per_sheet: int = 100) -> Previews:
    count = -(-len(times) // per_sheet)
    return Previews(
        width=160, height=90, columns=10, per_sheet=per_sheet, times=times,
        sheets=(b"\xff\xd8",) * count,
    )  # fmt: skip


def cues(text: str) -> list[tuple[int, int, str]]:
    """Return the cues of a list: from, until (milliseconds), address."""
    cue_list: list[tuple[int, int, str]] = []
    for match in CUE.finditer(text):
        numbers = [int(each) for each in match.groups()[:8]]
        start, until = (
            ((some[0] * 60 + some[1]) * 60 + some[2]) * 1000 + some[3]
            for some in (numbers[:4], numbers[4:])
        )
        cue_list.append((start, until, match[9]))
    return cue_list


def test_a_picture_covers_the_time_up_to_the_next_one() -> None:
    assert cues(preview_list(previews(40, 2000, 4000), 5_500_000)) == [
        (0, 2000, "sheet-0.jpg#xywh=0,0,160,90"),
        (2000, 4000, "sheet-0.jpg#xywh=160,0,160,90"),
        (4000, 5500, "sheet-0.jpg#xywh=320,0,160,90"),
    ]


def test_pictures_continue_in_the_next_row_and_on_the_next_sheet() -> None:
    cue_list = cues(preview_list(previews(*range(0, 25_000, 1000), per_sheet=20), 25_000_000))
    assert [cue_list[place][2] for place in (9, 10, 19, 20, 24)] == [
        "sheet-0.jpg#xywh=1440,0,160,90",
        "sheet-0.jpg#xywh=0,90,160,90",
        "sheet-0.jpg#xywh=1440,90,160,90",
        "sheet-1.jpg#xywh=0,0,160,90",
        "sheet-1.jpg#xywh=640,0,160,90",
    ]


@pytest.mark.parametrize(("length_us", "end"), [(0, 12_000), (1, 2001), (9_000_000, 9000)])
def test_the_last_picture_covers_some_time_whatever_the_file_claims(
    length_us: int, end: int
) -> None:
    assert cues(preview_list(previews(0, 2000), length_us))[-1][1] == end


@given(st.lists(st.integers(0, 100_000), min_size=1, max_size=150), st.integers(0, 86_400_000_000))
def test_any_times_give_cues_one_after_the_other(times: list[int], length_us: int) -> None:
    cue_list = cues(preview_list(previews(*sorted(times)), length_us))
    assert cue_list[0][0] == 0
    assert all(one[1] == other[0] for one, other in pairwise(cue_list))
    assert all(start < until for start, until, _ in cue_list)


async def test_a_folder_holds_the_sheets_and_the_list(tmp_path: Path) -> None:
    objects = DiskObjects(tmp_path)
    sheets = previews(*range(0, 250_000, 1000))
    images = VodImages(posters=(), previews=sheets)
    size = await store_images(
        objects, "abcdefABCDEF", images, "poster-1-1", "previews-1-1", 250_000_000
    )
    folder = "videos/abcdefABCDEF/previews-1-1"
    names = ["previews.vtt", "sheet-0.jpg", "sheet-1.jpg", "sheet-2.jpg"]
    assert await objects.addresses(folder) == [f"{folder}/{name}" for name in names]
    assert size == sum([len(await objects.get(f"{folder}/{name}")) for name in names])
