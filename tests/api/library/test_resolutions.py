"""The list of resolutions."""

from tests.support.api.application import ApiService


async def test_the_resolutions_of_a_stream_are_listed(api_service: ApiService) -> None:
    body = await api_service.listed(path="/api/resolutions")
    rows = [tuple(item.values()) for item in body["data"]]
    assert set(body) == {"data"}
    assert list(body["data"][0]) == ["id", "name", "width", "height", "active"]
    assert rows == [
        (1, "360p", 640, 360, True),
        (2, "480p", 854, 480, True),
        (3, "720p", 1280, 720, True),
        (4, "1080p", 1920, 1080, True),
        (5, "1440p", 2560, 1440, False),
        (6, "2160p", 3840, 2160, False),
    ]
    stream = await api_service.add()
    assert stream["resolutions"] == [
        {key: item[key] for key in ("id", "name", "active")} for item in body["data"]
    ]


async def test_the_list_takes_a_token(api_service: ApiService) -> None:
    assert (await api_service.client.get("/api/resolutions")).status_code == 401
