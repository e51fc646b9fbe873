"""How settings are described and shown; that no text of them has a secret."""

from typing import Annotated

from headend.config.section import Section, Setting, explain
from headend.config.settings import ServiceSettings
from media.setting import describe


class Door(Section, frozen=True, kw_only=True):
    """Settings for this test."""

    width: Annotated[int, describe("how wide it is", "cm", reason="for a wheelchair")] = 90
    code: Annotated[str, describe("what opens it", secret=True)] = ""
    hinges: int = 2  # a constant: no line of `headend settings`


class House(Section, frozen=True, kw_only=True):
    """A section with another one in it."""

    door: Door = Door()


def test_a_setting_is_a_line_with_its_source() -> None:
    width, code = explain(House(door=Door(width=100)), {"door.width": "command line"})
    assert width == Setting(
        name="door.width",
        value=100,
        unit="cm",
        source="command line",
        description="how wide it is",
        reason="for a wheelchair",
    )
    assert (code.value, code.source) == ("", "default")


def test_a_secret_is_shown_as_set() -> None:
    house = House(door=Door(code="1234"))
    assert explain(house, {})[1].value == "(set)"
    assert repr(house) == "House(door.width=90, door.code='(set)')"
    assert repr(house.door) == "Door(width=90, code='(set)')"


def test_every_setting_has_a_description() -> None:
    lines = explain(ServiceSettings(), {"http.listen": "somewhere"})
    assert len(lines) > 30
    assert all(line.description for line in lines)
    assert {line.source for line in lines if line.name == "http.listen"} == {"somewhere"}
    assert all(line.unit for line in lines if line.name.endswith(("_seconds", "_bytes")))
