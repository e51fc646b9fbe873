"""Invalid storage settings are refused at the start, with one sentence."""

import pytest

from headend.config.settings import SettingsError, load
from headend.config.storage_settings import bucket_errors, delivery_errors


@pytest.mark.parametrize("url", ["", "s3://media", "s3://media.example.org/one/two-2.x/"])
@pytest.mark.parametrize("endpoint", ["", "https://s3.example.org", "http://[::1]:9000"])
def test_valid_addresses_give_no_errors(url: str, endpoint: str) -> None:
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
def test_an_invalid_bucket_is_refused_with_one_sentence(name: str, value: str) -> None:
    variable = f"HEADEND_STORAGE__{name.upper()}"
    with pytest.raises(SettingsError, match=rf"{variable}: storage\.{name}: Expected ") as caught:
        load(file=None, environment={variable: value}, options={})
    assert "password" not in str(caught.value)


@pytest.mark.parametrize(
    ("url", "delivery", "endpoint", "cdn"),
    [
        ("", "proxy", "", ""),
        ("s3://media", "redirect", "", ""),
        ("s3://media", "redirect", "https://s3.example.org", ""),
        ("s3://media", "cdn", "", "https://cdn.example.org"),
        ("s3://media", "cdn", "", "https://cdn.example.org/media/one/"),
    ],
)
def test_valid_delivery_settings_give_no_errors(
    url: str, delivery: str, endpoint: str, cdn: str
) -> None:
    assert delivery_errors(url, delivery, endpoint, cdn) == {}


@pytest.mark.parametrize(
    ("name", "changed"),
    [
        ("delivery", {"DELIVERY": "redirect"}),
        ("delivery", {"DELIVERY": "cdn", "URL": "s3://media"}),
        ("delivery", {"DELIVERY": "mail"}),
        ("public_endpoint", {"PUBLIC_ENDPOINT": "s3.example.org"}),
        ("cdn_url", {"CDN_URL": "//cdn.example.org"}),
        ("cdn_url", {"CDN_URL": "https://cdn.example.org/?a=b"}),
        ("signed_seconds", {"SIGNED_SECONDS": "0"}),
    ],
)
def test_invalid_delivery_settings_are_refused_with_one_sentence(
    name: str, changed: dict[str, str]
) -> None:
    environment = {f"HEADEND_STORAGE__{variable}": text for variable, text in changed.items()}
    with pytest.raises(SettingsError, match=rf"storage\.{name}: (Expected|Invalid) "):
        load(file=None, environment=environment, options={})
