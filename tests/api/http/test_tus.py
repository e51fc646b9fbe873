"""The headers of resumable uploads: any text gives values or a refusal."""

import base64
import random
import string

import pytest

from api.http.errors import ApiError
from api.http.tus import (
    format_expiry,
    read_checksum,
    read_creation,
    read_metadata,
    read_patch,
)

SEED = 5
LETTERS = string.printable + "äß€😀\0=,"


def b64(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


def test_metadata_is_read_key_by_key() -> None:
    assert read_metadata("") == {}
    assert read_metadata(" ") == {}
    assert read_metadata("empty") == {"empty": ""}
    text = f"title {b64('Ă, b')}, filename {b64('a.mp4')},flag "
    assert read_metadata(text) == {"title": "Ă, b", "filename": "a.mp4", "flag": ""}


def test_a_text_cut_anywhere_is_read_or_refused() -> None:
    text = f"title {b64('My film of a day')},filename {b64('film.mp4')}"
    for end in range(len(text) + 1):
        try:
            keys = read_metadata(text[:end])
        except ApiError as error:
            assert error.status_code == 400
        else:
            assert set(keys) <= {*("title"[:n] for n in range(6)), "filename"} | {
                "filename"[:n] for n in range(9)
            }


def test_any_text_is_read_or_refused() -> None:
    chance = random.Random(SEED)
    names = ("Upload-Length", "Upload-Defer-Length", "Upload-Metadata", "Upload-Checksum",
             "Upload-Offset", "Content-Type")  # fmt: skip
    seeds = ("1", "0", "sha1 ", "application/offset+octet-stream", "a YQ==", "9" * 19, "")
    for _ in range(5_000):
        headers = {
            name: chance.choice(seeds)
            + "".join(chance.choices(LETTERS, k=chance.choice((0, 0, 1, 9))))
            for name in names
            if chance.random() < 0.7
        }
        for read in (
            lambda: read_creation(headers, 100),  # noqa: B023  # called at once
            lambda: read_metadata(headers.get("Upload-Metadata", "")),  # noqa: B023  # as above
            lambda: read_checksum(headers),  # noqa: B023  # as above
            lambda: read_patch(headers, 100),  # noqa: B023  # as above
        ):
            try:
                read()
            except ApiError as error:
                assert error.status_code in (400, 413, 415)


@pytest.mark.parametrize("text", ["1 ", "+1", "1_0", "٣", "0x1", "1.0", ""])
def test_numbers_that_only_python_accepts_are_refused(text: str) -> None:
    with pytest.raises(ApiError):
        read_creation({"Upload-Length": text}, 100)


def test_a_time_is_formatted_as_in_http() -> None:
    assert format_expiry(1_700_000_000_123_456) == "Tue, 14 Nov 2023 22:13:20 GMT"
