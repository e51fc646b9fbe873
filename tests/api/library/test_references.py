"""References to tags, countries and resolutions in request bodies."""

import msgspec
import pytest

from api.http.errors import ApiError
from api.library.references import TagReference, TagReferences, read_countries, wanted_tags
from api.schemas.text_fields import Name


def test_countries_are_read_in_either_form_once_each() -> None:
    countries = read_countries([642, "at", "RO", 40, "De"])
    assert countries == (642, 40, 276)
    assert read_countries([]) == ()


def test_each_unknown_country_is_named() -> None:
    with pytest.raises(ApiError) as refused:
        read_countries([642, "XX", 10**40, "<script>", "642"])
    assert refused.value.status_code == 422
    assert refused.value.errors == {
        "countries": [
            "There is no country 'XX'.",
            f"There is no country '1{19 * '0'}'.",
            "There is no country '<script>'.",
            "There is no country '642'.",
        ]
    }


def test_tags_of_a_body_are_read_by_id_by_name_and_by_both() -> None:
    body = [{"id": 4}, {"name": " New "}, {"id": 5, "name": "shown"}]

    def text(kind: type, value: object) -> object:
        assert kind is Name
        return Name.parse(value)

    references = msgspec.convert(body, TagReferences, dec_hook=text)
    assert wanted_tags(references) == (4, "New", 5)
    for wrong in ([{"tag": 1}], [{"id": "4"}], [4], [{"id": 1}] * 101, [{"name": None}]):
        with pytest.raises(msgspec.ValidationError):
            msgspec.convert(wrong, TagReferences, dec_hook=text)
    with pytest.raises(ApiError) as refused:
        wanted_tags([TagReference()])
    assert refused.value.errors == {"tags": ["Each of the tags must have an id or a name."]}
