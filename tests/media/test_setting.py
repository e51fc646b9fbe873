"""How a setting is described: the unit, the bounds and whether it is shown."""

from typing import Annotated

import msgspec
import pytest

from media.setting import describe

Width = Annotated[int, describe("how wide it is", "cm", 80, 120, reason="for a wheelchair")]
Code = Annotated[str, describe("what opens it", max_length=4, secret=True)]


@pytest.mark.parametrize("value", [80, 120])
def test_a_number_within_its_bounds_is_taken(value: int) -> None:
    assert msgspec.convert(value, Width) == value


@pytest.mark.parametrize(("value", "type_"), [(79, Width), (121, Width), ("12345", Code)])
def test_what_is_out_of_bounds_is_refused(value: object, type_: type) -> None:
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert(value, type_)
