"""Screenshots for the docs, taken by tests so that they are up to date.

They are written to the folder in the environment variable HEADEND_TEST_PICTURES (`make pictures`),
or else to a folder of the test.
"""

import os
import subprocess
from pathlib import Path
from typing import Final

from tests.support.browser import Viewer
from tests.support.e2e.publishers import tool

_MOST_BYTES: Final = 120_000  # a page with a dozen of them must load on a mobile network
_TO_TOP: Final = """(selector) => {
  const found = selector && document.querySelector(selector);
  scrollTo(0, found ? found.getBoundingClientRect().top + scrollY - 16 : 0);
}"""


class PagePictures:
    """The screenshots of a test; `otherwise` is the folder for those that are not kept."""

    def __init__(self, otherwise: Path) -> None:
        self._folder = Path(os.environ.get("HEADEND_TEST_PICTURES") or otherwise)
        self._folder.mkdir(parents=True, exist_ok=True)

    def take(self, viewer: Viewer, name: str, top: str = "") -> Path:
        """Take a screenshot of the window, scrolled to the first match of `top`."""
        viewer.evaluate(_TO_TOP, top)
        whole, path = self._folder / f"{name}.png", self._folder / f"{name}.webp"
        viewer.screenshot(whole)
        subprocess.run(
            [
                *(tool("ffmpeg"), "-v", "error", "-y", "-i", str(whole)),
                *("-c:v", "libwebp", "-preset", "text", "-quality", "80", str(path)),
            ],
            check=True,
            timeout=60,
        )
        whole.unlink()
        assert path.stat().st_size <= _MOST_BYTES, f"{path.name} is too large for a page"
        return path
