"""An application of Litestar whose bodies are typed by msgspec alone, as Headend's are."""

from litestar import Litestar
from litestar.plugins.base import PluginProtocol
from litestar.plugins.core import MsgspecDIPlugin


class MsgspecApp(Litestar):
    """Litestar without its plugins for pydantic and attrs.

    It would load them wherever the two are installed, as they are beside tools for development:
    0.15 s of CPU and 17 MB for nothing.
    """

    @staticmethod
    def _get_default_plugins(plugins: list[PluginProtocol]) -> list[PluginProtocol]:
        return [*plugins, MsgspecDIPlugin()]
