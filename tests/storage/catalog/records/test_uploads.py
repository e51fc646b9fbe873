"""When an upload is whole, and when it is done."""

from typing import Literal

import pytest

from storage.catalog.records.uploads import UploadRecord


def upload(received: int, length: int | None, state: Literal["open", "done"]) -> UploadRecord:
    return UploadRecord(
        project=1, link=None, name="x", length=length, most_bytes=100, received=received,
        metadata="", state=state, video=1, hash="abcdefABCDEF", expires_us=0,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("received", "length", "whole"),
    [(0, None, False), (9, None, False), (0, 9, False), (9, 9, True), (0, 0, True)],
)
def test_an_upload_is_whole_once_its_announced_length_came(
    received: int, length: int | None, whole: bool
) -> None:
    assert upload(received, length, "open").whole is whole


def test_a_whole_upload_is_not_done_before_its_video_has_the_file() -> None:
    assert not upload(9, 9, "open").done
    assert upload(9, 9, "done").done
