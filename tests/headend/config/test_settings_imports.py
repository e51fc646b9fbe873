"""The settings of imports: read, and refused with the setting's name."""

from ipaddress import ip_network

import pytest

from headend.config.settings import ImportSettings, SettingsError, load
from headend.roles.transcode_role import import_rules


def loaded(**values: str) -> ImportSettings:
    environment = {f"HEADEND_IMPORTS__{name.upper()}": value for name, value in values.items()}
    return load(file=None, environment=environment, options={})[0].imports


def test_nothing_but_the_webs_own_ports_is_open_at_first() -> None:
    rules = import_rules(loaded())
    assert rules.ports == {80, 443}
    assert rules.allowed == ()


def test_ports_and_networks_are_lists() -> None:
    rules = import_rules(loaded(ports="443,8443", allow_private="10.0.0.0/8, fd00::/8"))
    assert rules.ports == {443, 8443}
    assert list(rules.allowed) == [ip_network("10.0.0.0/8"), ip_network("fd00::/8")]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("ports", "http"),
        ("ports", "0"),
        ("ports", "65536"),
        ("allow_private", "intranet"),
        ("allow_private", "10.0.0.1/8"),
    ],
)
def test_an_invalid_list_ends_the_start_with_one_sentence(name: str, value: str) -> None:
    with pytest.raises(SettingsError, match=f"HEADEND_IMPORTS__{name.upper()}: imports.{name}: "):
        loaded(**{name: value})
