"""The shared bodies keep the schema names that clients are generated from."""

import msgspec
import pytest

from api.schemas.common import CountryBody, Meta, PageLinks, StreamBody, TagBody


@pytest.mark.parametrize(
    ("body", "name"),
    [(CountryBody, "Country"), (StreamBody, "Stream"), (TagBody, "Tag"), (PageLinks, "Links")],
)
def test_a_body_is_shown_by_its_published_name(body: type[msgspec.Struct], name: str) -> None:
    assert (body.__name__, body.__qualname__) == (name, name)
    assert msgspec.json.schema(body)["$ref"] == f"#/$defs/{name}"


def test_the_first_record_of_a_page_is_called_from() -> None:
    meta = Meta(
        current_page=1, from_=1, last_page=1, links=[], path="/", per_page=10, to=1, total=1
    )
    assert msgspec.to_builtins(meta)["from"] == 1
