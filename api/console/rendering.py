"""Templates of the console: Jinja with escaping on, and what every template may use.

An undefined name in a template is an error. English texts are in the templates, in `_("...")`, so
that a catalogue can translate them.
"""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from api.http.static_files import BUNDLE, public_name
from api.schemas.timestamps import format_timestamp
from api.schemas.urls import Addresses
from media.no_op import never
from media.ticks import utc

_TEMPLATES: Final = Path(__file__).parent / "templates"
_UNITS: Final = ("kB", "MB", "GB", "TB")
_STEP: Final = 1000


class Renderer:
    """Fills the console's templates, which are compiled once a process."""

    def __init__(
        self,
        addresses: Addresses,
        version: str,
        broadcaster_key: str,
        *,
        command: str = "headend",
        knows_countries: bool = True,
        files_wait: Callable[[], bool] = never,
        keep_days: int = 0,
    ) -> None:
        self._home = addresses.http
        self.base: Final = urlsplit(addresses.http).path
        """The path that all addresses of the service begin with; usually empty."""
        self._environment = Environment(
            loader=FileSystemLoader(_TEMPLATES),
            autoescape=True,
            undefined=StrictUndefined,
            extensions=["jinja2.ext.i18n"],
            trim_blocks=True,
            lstrip_blocks=True,
            auto_reload=False,
        )
        # Any: the extension adds this method.
        extended: Any = self._environment
        extended.install_null_translations(newstyle=True)
        assets = {path.name: self._address(path) for path in _bundled()}
        names: dict[str, Any] = {  # Any: values and functions of every kind
            "base": self.base,
            "version": version,
            "command": command,
            "knows_countries": knows_countries,
            "files_wait": files_wait,
            "keep_days": keep_days,
            "broadcaster_key": broadcaster_key,
            "url": self.url,
            "asset": assets.__getitem__,
            "time": moment_tag,
        }
        self._environment.globals.update(names)
        self._environment.filters |= {
            "here": self.here,
            "bytes": bytes_text,
            "duration": duration_text,
            "timestamp": format_timestamp,
        }

    def url(self, path: str) -> str:
        """Return the address of a path of this service, as pages refer to it."""
        return self.base + path

    def _address(self, file: Path) -> str:
        return self.url(f"/static/{public_name(file.name, file.read_bytes())}")

    def here(self, address: str) -> str:
        """Return an address of this service without its host, which may be another in the browser.

        Addresses elsewhere stay whole.
        """
        path = address.removeprefix(self._home)
        return self.base + path if path != address and path.startswith("/") else address

    def render(self, template: str, values: Mapping[str, object]) -> str:
        """Return a filled template."""
        return self._environment.get_template(template).render(values)


def _bundled() -> list[Path]:
    return [path for path in BUNDLE.iterdir() if path.suffix in {".css", ".js", ".svg"}]


def moment_tag(moment_us: int, *, since: bool = False, seconds: bool = False) -> Markup:
    """Return a moment as `<time>`, in UTC; the page's script shows it in the viewer's zone.

    With `since` it shows how long ago the moment was, counting on; with `seconds` the seconds, too.
    """
    moment = utc(moment_us)
    kind = Markup(" data-since") if since else Markup(" data-seconds") if seconds else ""
    shown = moment.strftime("%Y-%m-%d %H:%M:%S" if seconds else "%Y-%m-%d %H:%M")
    return Markup('<time datetime="{}"{}>{}</time>').format(
        f"{moment:%Y-%m-%dT%H:%M:%SZ}", kind, f"{shown} UTC"
    )


def bytes_text(size: int) -> str:
    """Return a size in bytes as people read it: `1.4 GB`, in powers of 1000."""
    if size < _STEP:
        return f"{size} B"
    power = 1
    while power < len(_UNITS) and round(size / _STEP**power, 1) >= _STEP:
        power += 1
    return f"{size / _STEP**power:.1f} {_UNITS[power - 1]}"


def duration_text(seconds: float) -> str:
    """Return a length in seconds as a clock shows it: `4:07`, `1:02:09`."""
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"
