from litestar import Litestar

from api.http.msgspec_app import MsgspecApp


def test_no_plugin_for_other_types_is_loaded() -> None:
    def of(app: Litestar) -> set[str]:
        modules = (type(plugin).__module__ for plugin in app.plugins)
        return {name for name in modules if name.startswith("litestar.plugins.")}

    # Beside tools for development, which bring pydantic, Litestar has its plugins.
    assert "litestar.plugins.pydantic" in of(Litestar(logging_config=None))
    assert {name.split(".")[2] for name in of(MsgspecApp(logging_config=None))} == {"core"}
