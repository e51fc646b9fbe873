"""Titles and slugs from the names of uploaded files."""

import pytest
from multipart import MultipartSegment

from api.schemas.filenames import file_name, file_slug, file_title, slug
from api.schemas.text_fields import MAX_TITLE


@pytest.mark.parametrize(
    ("name", "title", "slugged"),
    [
        ("My Holiday.mp4", "My Holiday", "my-holiday"),
        ("C:\\films\\Straße.mov", "Straße", "strasse"),
        ("../../etc/passwd", "passwd", "passwd"),
        ("Ștefan  cel\tMare.webm", "Ștefan cel Mare", "stefan-cel-mare"),
        ("", "video", "video"),
        (".mp4", "video", "video"),
        ("\u200b.mp4", "video", "video"),
        ("日本.mp4", "日本", "video"),
    ],
)
def test_a_title_and_a_slug_are_made_of_a_name(name: str, title: str, slugged: str) -> None:
    assert (file_title(name), file_slug(name)) == (title, slugged)


@pytest.mark.parametrize(
    ("title", "slugged"),
    [
        ("Concert 24/7", "concert-24-7"),
        ("AC/DC", "ac-dc"),
        ("v1.5", "v1-5"),
        ("Straße\t2", "strasse-2"),
        ("日本", "video"),
    ],
)
def test_the_slug_of_a_title_has_all_of_it(title: str, slugged: str) -> None:
    assert slug(title) == slugged


def test_titles_and_slugs_are_cut_to_the_length_of_a_title() -> None:
    name = "x" * 1000
    assert len(file_title(name)) == len(file_slug(name)) == len(slug(name)) == MAX_TITLE


class FormPart(MultipartSegment):
    """A part of a form that has a header only."""

    def __init__(self, header: str, filename: str | None) -> None:
        self.headerlist = [("Content-Disposition", header)]
        self.filename = filename


@pytest.mark.parametrize(
    ("header", "plain", "expected"),
    [
        ('form-data; name="video"', None, None),
        ('form-data; name="video"; filename="a.mp4"', "a.mp4", "a.mp4"),
        ("form-data; filename=\"a.mp4\"; filename*=UTF-8''%C3%A4.mp4", "a.mp4", "ä.mp4"),
        ("form-data; filename=\"; filename*=UTF-8''x\"", "y", "y"),
    ],
)
def test_the_extended_name_counts_unless_it_is_quoted_text(
    header: str, plain: str | None, expected: str | None
) -> None:
    assert file_name(FormPart(header, plain)) == expected
