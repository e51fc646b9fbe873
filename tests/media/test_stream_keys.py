import pytest
from hypothesis import given
from hypothesis import strategies as st

from media.stream_keys import Slot, StreamKey, new_hash

SECRET = "0b8e4a52-6d7c-4f3a-9a8e-1c2d3e4f5a6b"


@pytest.mark.parametrize(
    ("text", "hash_"),
    [
        pytest.param(f"Ab3dEf6hIj9l_{SECRET}", "Ab3dEf6hIj9l", id="hash and uuid"),
        pytest.param(SECRET, "", id="the bare uuid"),
        pytest.param(SECRET.upper(), "", id="in capitals"),
    ],
)
def test_a_key_is_read(text: str, hash_: str) -> None:
    key = StreamKey.parse(text)
    assert key is not None
    assert (key.hash, key.secret) == (hash_, SECRET)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "_",
        f"_{SECRET}",
        f"short_{SECRET}",
        f"Ab3dEf6hIj9l_{SECRET}x",
        f"Ab3dEf6hIj9l_{SECRET}\n",
        "Ab3dEf6hIj9l_",
        f"Ab3dEf6hIj9l__{SECRET}",
        f"Ab3dEf6hIj9é_{SECRET}",
    ],
)
def test_what_is_no_key_is_none(text: str) -> None:
    assert StreamKey.parse(text) is None


@given(st.text(max_size=80))
def test_any_text_is_a_key_or_none(text: str) -> None:
    key = StreamKey.parse(text)
    assert key is None or key.text == text.lower() or key.text.endswith(key.secret)


def test_the_secret_hides_in_every_text_of_a_key() -> None:
    key = StreamKey.new(new_hash())
    for text in (repr(key), str(key), f"{key}", f"{[key]}"):
        assert key.secret not in text


def test_only_its_own_secret_matches() -> None:
    key = StreamKey(hash="Ab3dEf6hIj9l", secret=SECRET)
    assert key.matches(SECRET.upper())
    assert not key.matches(SECRET[:-1] + "c")
    assert not key.matches("")


def test_hashes_differ_and_have_twelve_characters() -> None:
    hashes = {new_hash() for _ in range(1000)}
    assert len(hashes) == 1000
    assert all(len(hash_) == 12 and hash_.isascii() and hash_.isalnum() for hash_ in hashes)


@pytest.mark.parametrize(
    ("application", "slot"),
    [
        ("live", Slot(0)),
        ("live-backup-1", Slot(1)),
        ("live-backup-17", Slot(17)),
        ("live-backup-0", None),
        ("live-backup-01", None),
        ("live-backup-", None),
        ("live-backup-1x", None),
        ("live/", None),
        ("LIVE", None),
        ("", None),
    ],
)
def test_an_application_names_a_slot(application: str, slot: Slot | None) -> None:
    assert Slot.of_application(application) == slot
    if slot is not None:
        assert slot.application == application
