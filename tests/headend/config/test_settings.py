from pathlib import Path

import pytest

from headend.config.settings import ServiceSettings, SettingsError, load, warnings
from ingest.rtmp.limits import Limits


def test_without_sources_all_settings_have_their_defaults() -> None:
    settings, sources = load(file=None, environment={}, options={})
    assert settings == ServiceSettings()
    assert sources == {}


def test_the_later_source_wins(tmp_path: Path) -> None:
    file = tmp_path / "headend.toml"
    file.write_text('data = "/srv"\n[http]\nlisten = "1.2.3.4:1"\n[rtmp]\nlisten = "1.2.3.4:2"\n')
    settings, sources = load(
        file=file,
        environment={"HEADEND_HTTP__LISTEN": "1.2.3.4:3", "PATH": "/bin", "HEADEND_CONFIG": "x"},
        options={"http.listen": "1.2.3.4:4"},
    )
    assert (settings.data, settings.http.listen, settings.rtmp.listen) == (
        "/srv",
        "1.2.3.4:4",
        "1.2.3.4:2",
    )
    assert sources == {"data": str(file), "http.listen": "command line", "rtmp.listen": str(file)}


def test_environment_variables_are_converted_to_the_settings_type() -> None:
    settings, _ = load(
        file=None,
        environment={
            "HEADEND_LIVE__LISTED_SECONDS": "45",
            "HEADEND_LIVE__LATENCY": "normal",
            "HEADEND_FAILOVER__DETECT_SECONDS": "0.5",
            "HEADEND_LIVE__PART_SECONDS": "0.25",
            "HEADEND_LIMITS__CONNECTIONS": "12",
            "HEADEND_HTTP__PUBLIC_URL": "https://tv.example.org",
        },
        options={},
    )
    assert settings.live.listed_seconds == 45.0
    assert settings.live.latency == "normal"
    assert settings.live.part_seconds == 0.25
    assert settings.failover.detect_seconds == 0.5
    assert settings.limits.connections == 12
    assert settings.http.public_url == "https://tv.example.org"


def test_a_limit_that_is_a_constant_now_is_warned_about(tmp_path: Path) -> None:
    file = tmp_path / "headend.toml"
    file.write_text("[limits]\namf_depth = 99\nconnections = 3\n")
    environment = {"HEADEND_LIMITS__READ_SECONDS": "soon"}
    settings, sources = load(file=file, environment=environment, options={})
    assert settings.limits == Limits(connections=3)
    told = warnings(sources)
    assert [words.split(" has no effect")[0] for words in told] == [
        f"{file}: limits.amf_depth",
        "HEADEND_LIMITS__READ_SECONDS: limits.read_seconds",
    ]
    assert "always 16." in told[0]
    assert "always 0.05." in told[1]


@pytest.mark.parametrize(
    ("environment", "words"),
    [
        ({"HEADEND_HTTP__PORT": "1"}, ("HEADEND_HTTP__PORT", "http.port")),
        ({"HEADEND_LIMITS__NONE": "1"}, ("HEADEND_LIMITS__NONE", "limits.none")),
        ({"HEADEND_HTTP": "1"}, ("HEADEND_HTTP", "'http'")),
        ({"HEADEND_LIVE__LISTED_SECONDS": "long"}, ("HEADEND_LIVE__LISTED_SECONDS", "float")),
        ({"HEADEND_LIVE__LISTED_SECONDS": "1"}, ("HEADEND_LIVE__LISTED_SECONDS", ">= 12")),
        ({"HEADEND_LIVE__LISTED_SECONDS": "60"}, ("live.kept_seconds", "64 s")),
        ({"HEADEND_LIVE__LATENCY": "lowest"}, ("HEADEND_LIVE__LATENCY", "lowest")),
        ({"HEADEND_LIVE__PART_SECONDS": "0.1"}, ("HEADEND_LIVE__PART_SECONDS", ">= 0.2")),
        ({"HEADEND_FAILOVER__DETECT_SECONDS": "0.4"}, ("failover.detect_seconds", ">= 0.5")),
        ({"HEADEND_FAILOVER__DETECT_SECONDS": "31"}, ("failover.detect_seconds", "<= 30")),
        ({"HEADEND_LIVE__PART_SECONDS": "1.1"}, ("HEADEND_LIVE__PART_SECONDS", "<= 1")),
        ({"HEADEND_LOG__FORMAT": "xml"}, ("HEADEND_LOG__FORMAT", "xml")),
    ],
)
def test_an_invalid_value_is_refused_with_the_settings_name(
    environment: dict[str, str], words: tuple[str, ...]
) -> None:
    with pytest.raises(SettingsError) as caught:
        load(file=None, environment=environment, options={})
    assert all(word in str(caught.value) for word in words), str(caught.value)


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("[htp]\nlisten = 'x'\n", "htp.listen"),
        ("http = 3\n", "'http'"),
        ("[http]\nlisten = 3\n", "http.listen"),
        ("[http\n", "headend.toml"),
    ],
)
def test_a_file_with_a_fault_is_refused(tmp_path: Path, text: str, word: str) -> None:
    file = tmp_path / "headend.toml"
    file.write_text(text)
    with pytest.raises(SettingsError, match=word):
        load(file=file, environment={}, options={})


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=r"none\.toml"):
        load(file=tmp_path / "none.toml", environment={}, options={})
