"""An address of a bucket that cannot be is refused at the start, in a sentence."""

import pytest

from headend.config.bucket_address import bucket_errors
from headend.config.settings import SettingsError, load


@pytest.mark.parametrize("url", ["", "s3://media", "s3://media.example.org/one/two-2.x/"])
@pytest.mark.parametrize("endpoint", ["", "https://s3.example.org", "http://[::1]:9000"])
def test_addresses_that_can_be_have_no_errors(url: str, endpoint: str) -> None:
    assert bucket_errors(url, endpoint) == {}


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("url", "media"),
        ("url", "s3://"),
        ("url", "s3://M"),
        ("url", "s3://media/../other"),
        ("url", "s3://media//one"),
        ("url", "https://media.example.org"),
        ("endpoint", "media.example.org"),
        ("endpoint", "https://user:password@media.example.org"),
        ("endpoint", "https://media.example.org/path"),
    ],
)
def test_a_place_that_cannot_be_is_refused_in_a_sentence(name: str, value: str) -> None:
    variable = f"HEADEND_STORAGE__{name.upper()}"
    with pytest.raises(SettingsError, match=rf"{variable}: storage\.{name}: Expected ") as caught:
        load(file=None, environment={variable: value}, options={})
    assert "password" not in str(caught.value)
