"""The files of a profile for OBS; `test_obs_profile` tests the values of a stream in them."""

import configparser

import pytest

from api.streams.obs_files import DEFAULT_LABEL, ObsProfile, bit_rate
from media.ladder import SELECTABLE_BOXES, Box

HD = next(box for box in SELECTABLE_BOXES if box.label == DEFAULT_LABEL)


def test_equal_profiles_are_equal_files_and_hide_their_key() -> None:
    profile = ObsProfile(folder="f", name="n", server="rtmp://x/live", key="secret", box=HD)
    assert profile.zipped() == profile.zipped()
    assert "secret" not in repr(profile)
    assert "secret" in profile.files()["service.json"]


def test_rates_are_below_those_of_the_ladder_and_in_order() -> None:
    rates = [bit_rate(box) for box in sorted(SELECTABLE_BOXES, key=lambda box: box.rate)]
    assert rates == sorted(set(rates))
    assert all(1000 * bit_rate(box) < box.rate for box in SELECTABLE_BOXES)


@pytest.mark.parametrize("box", SELECTABLE_BOXES, ids=lambda box: box.label)
def test_the_size_is_one_that_obs_keeps(box: Box) -> None:
    """OBS 29 was seen to send 852 columns where its settings say 854."""
    profile = ObsProfile(folder="f", name="n", server="rtmp://x/live", key="secret", box=box)
    settings = configparser.ConfigParser()
    settings.read_string(profile.files()["basic.ini"])
    width, height = settings["Video"]["OutputCX"], settings["Video"]["OutputCY"]
    assert int(width) % 4 == int(height) % 2 == 0
    assert box.width - 4 < int(width) <= box.width
