"""The profile for OBS: a folder that OBS imports, with the address and the key of one slot."""

import configparser
import io
import json
import re
import zipfile

import pytest

from storage.catalog.records.common import Change
from tests.support.api.application import ApiService, Json

FILES = ["basic.ini", "service.json", "streamEncoder.json"]


async def download(
    api_service: ApiService, stream: Json, query: str = ""
) -> tuple[str, dict[str, str]]:
    """Return the name of the profile's folder, and the texts of its files by name."""
    path = f"/api/streams/{stream['id']}/obs-profile{query}"
    answer = await api_service.client.get(path, headers=api_service.owner)
    assert answer.status_code == 200, answer.text
    assert answer.headers["content-type"] == "application/zip"
    assert answer.headers["cache-control"] == "no-store"
    with zipfile.ZipFile(io.BytesIO(answer.content)) as archive:
        assert archive.testzip() is None
        texts = {name: archive.read(name).decode() for name in archive.namelist()}
    folders = {name.split("/")[0] for name in texts}
    assert len(folders) == 1
    (folder,) = folders
    disposition = answer.headers["content-disposition"]
    assert disposition == f'attachment; filename="{folder}.zip"'
    return folder, {name.split("/")[1]: text for name, text in texts.items()}


def settings(text: str) -> configparser.ConfigParser:
    parser = configparser.ConfigParser(interpolation=None)
    parser.optionxform = str  # type: ignore[method-assign,assignment]  # OBS' keys have capitals
    parser.read_string(text)
    return parser


async def test_the_profile_sends_to_the_primary_in_hd(api_service: ApiService) -> None:
    stream = await api_service.add("Evening show")
    folder, files = await download(api_service, stream)
    assert folder == "headend-evening-show-primary"
    assert sorted(files) == FILES
    service = json.loads(files["service.json"])
    assert service["type"] == "rtmp_custom"
    assert service["settings"]["server"] == stream["rtmp_url"]
    assert service["settings"]["key"] == stream["stream"]
    basic = settings(files["basic.ini"])
    assert basic["General"]["Name"] == "Evening show (primary)"
    assert basic["Output"]["Mode"] == "Advanced"
    assert basic["AdvOut"]["Encoder"] == "obs_x264"
    assert (basic["Video"]["OutputCX"], basic["Video"]["OutputCY"]) == ("1280", "720")
    encoder = json.loads(files["streamEncoder.json"])
    assert (encoder["rate_control"], encoder["bitrate"], encoder["keyint_sec"]) == ("CBR", 2500, 2)


async def test_a_backup_another_size_and_tls_can_be_chosen(api_service: ApiService) -> None:
    stream = await api_service.add("Evening show 24/7")
    query = "?slot=backup-1&resolution=1080p&secure=true"
    folder, files = await download(api_service, stream, query)
    assert folder == "headend-evening-show-24-7-backup-1"
    service = json.loads(files["service.json"])["settings"]
    (backup,) = stream["backups"]
    assert (service["server"], service["key"]) == (backup["rtmps_url"], stream["stream"])
    assert settings(files["basic.ini"])["Video"]["OutputCY"] == "1080"
    assert json.loads(files["streamEncoder.json"])["bitrate"] == 4500


@pytest.mark.parametrize(
    ("query", "fields"),
    [
        ("?slot=backup-2", {"slot"}),
        ("?slot=", {"slot"}),
        ("?resolution=721p", {"resolution"}),
        ("?secure=yes&resolution=x", {"secure", "resolution"}),
    ],
)
async def test_an_unknown_slot_or_resolution_is_refused(
    api_service: ApiService, query: str, fields: set[str]
) -> None:
    stream = await api_service.add()
    path = f"/api/streams/{stream['id']}/obs-profile{query}"
    answer = await api_service.client.get(path, headers=api_service.owner)
    assert answer.status_code == 422
    assert set(answer.json()["errors"]) == fields


async def test_the_key_is_shown_to_tokens_that_may_write_only(api_service: ApiService) -> None:
    stream = await api_service.add()
    path = f"/api/streams/{stream['id']}/obs-profile"
    reader = await api_service.headers_of("reader", 1, write=False)
    answer = await api_service.client.get(path, headers=reader)
    assert answer.status_code == 403
    assert stream["stream"] not in answer.text
    assert (await api_service.client.get(path)).status_code == 401
    other = await api_service.catalog.projects.add("Other", Change(1))
    theirs = await api_service.headers_of("theirs", other.id, write=True)
    assert (await api_service.client.get(path, headers=theirs)).status_code == 404


@pytest.mark.parametrize(
    "title",
    ['"><script>alert(1)</script>', "../../../etc/passwd", "back\\slash\\n", "şî 晚上", "; [x]"],
)
async def test_any_title_gives_a_safe_folder_and_one_line_of_settings(
    api_service: ApiService, title: str
) -> None:
    folder, files = await download(api_service, await api_service.add(title))
    assert folder.isascii()
    assert re.fullmatch("headend-[0-9A-Za-z-]+-primary", folder)
    assert "video" not in folder
    basic = settings(files["basic.ini"])
    # OBS reads a backslash as the beginning of an escape, and two as one.
    assert basic["General"]["Name"].replace("\\\\", "\\") == f"{title} (primary)"
    assert sorted(basic.sections()) == ["AdvOut", "Audio", "General", "Output", "Video"]
