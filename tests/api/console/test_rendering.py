"""Templates: values are text, addresses are those of the service, times are UTC."""

import re
from pathlib import Path

import msgspec
import pytest
from jinja2 import Environment, UndefinedError
from markupsafe import Markup

from api.console import page
from api.console.rendering import Renderer, bytes_text, duration_text, moment_tag
from tests.support.api.application import ADDRESSES

UNTRANSLATED = {"Headend", "Python", "RTMP", "RTMPS", "https", "app", "example", "px", "tokens"}
HOSTILE = "\"'><script>alert(1)</script>"


@pytest.fixture(scope="module")
def renderer() -> Renderer:
    return Renderer(ADDRESSES, "1.2.3", "0123")


def test_values_in_templates_are_escaped(renderer: Renderer) -> None:
    values = {"caller": None, "path": "/console/x", "message": HOSTILE, "reason": 404}
    page = renderer.render("error.html", values)
    assert "<script>alert" not in page
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in page


def test_an_undefined_name_in_a_template_is_an_error(renderer: Renderer) -> None:
    with pytest.raises(UndefinedError, match="message"):
        renderer.render("error.html", {"caller": None, "path": "/", "reason": 404})


def test_addresses_of_ours_have_no_host(renderer: Renderer) -> None:
    assert renderer.url("/console") == "/console"
    assert renderer.here("https://live.example/live/a/poster.jpg") == "/live/a/poster.jpg"
    assert renderer.here("https://live.example.evil/x") == "https://live.example.evil/x"
    assert renderer.here("https://cdn.example/x") == "https://cdn.example/x"


def test_a_service_below_a_path_has_it_in_every_address() -> None:
    below = msgspec.structs.replace(ADDRESSES, http="https://example.org/tv")
    renderer = Renderer(below, "1", "0")
    assert renderer.url("/console") == "/tv/console"
    assert renderer.here("https://example.org/tv/live/a.jpg") == "/tv/live/a.jpg"
    values = {"caller": None, "path": "/console/x", "message": "", "reason": 404}
    page = renderer.render("error.html", values)
    assert '<html lang="en" data-base="/tv"' in page
    assert 'href="/tv/console"' in page
    assert 'src="/tv/static/console.' in page


def test_moments_are_in_utc_for_the_script_to_convert() -> None:
    assert moment_tag(1_700_000_000_123_456) == Markup(
        '<time datetime="2023-11-14T22:13:20Z">2023-11-14 22:13 UTC</time>'
    )
    assert " data-since>" in moment_tag(0, since=True)
    assert moment_tag(7_000_000, seconds=True) == Markup(
        '<time datetime="1970-01-01T00:00:07Z" data-seconds>1970-01-01 00:00:07 UTC</time>'
    )


@pytest.mark.parametrize(
    ("size", "text"),
    [
        (0, "0 B"),
        (999, "999 B"),
        (1000, "1.0 kB"),
        (999_949, "999.9 kB"),
        (999_950, "1.0 MB"),
        (1_440_000_000, "1.4 GB"),
        (5 * 10**15, "5000.0 TB"),
    ],
)
def test_sizes_are_written_as_people_read_them(size: int, text: str) -> None:
    assert bytes_text(size) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "0:00"), (7.9, "0:07"), (247, "4:07"), (3729, "1:02:09"), (360_000, "100:00:00")],
)
def test_lengths_are_written_as_a_clock_shows_them(seconds: float, text: str) -> None:
    assert duration_text(seconds) == text


def test_every_word_of_a_template_can_be_translated() -> None:
    """Words are within `_("...")`, except names, units and terms of the web."""
    templates = Path(page.__file__).parent / "templates"
    lexer = Environment(autoescape=True)
    assert len(sorted(templates.glob("*.html"))) > 30
    for path in sorted(templates.glob("*.html")):
        tokens = lexer.lex(path.read_text())
        # The values of expressions are not words of the template.
        text = "".join(value if kind == "data" else "\0" for _, kind, value in tokens)
        texts = re.findall(r"\b(?:aria-label|title|placeholder|alt)=\"([^\"]*)\"", text)
        texts.append(re.sub(r"<[^>]*>", " ", text))
        words = set(re.findall(r"[A-Za-z]{2,}", " ".join(texts)))
        assert words <= UNTRANSLATED, (path.name, words - UNTRANSLATED)


def test_every_word_of_a_script_is_in_one_place() -> None:
    sources = Path(__file__).parents[3] / "web" / "src" / "console"
    scripts = [path for path in sources.rglob("*.ts") if path.stem not in ("words", "video_words")]
    assert len(scripts) > 25
    for path in scripts:
        code = re.sub(r"/\*.*?\*/|(?<!:)//[^\n]*", "", path.read_text(), flags=re.DOTALL)
        assert re.findall(r"[\"`][A-Z][a-z]+(?: [a-z]+)+", code) == [], path.name
