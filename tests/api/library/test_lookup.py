"""The project of a path, and which tokens may see it."""

import pytest

from tests.support.api.application import ApiService


async def test_a_project_is_named_by_its_number_or_its_key(api_service: ApiService) -> None:
    path = f"/api/projects/{api_service.key}/streams"
    added = await api_service.add("By key", path)
    assert (await api_service.listed())["data"][0]["id"] == added["id"]
    assert (await api_service.listed(path=path))["meta"]["path"] == f"https://live.example{path}"


@pytest.mark.parametrize("project", ["2", "0", "01", "unknown", "%00", "1%2F2", "-1"])
@pytest.mark.parametrize("method", ["GET", "POST"])
async def test_a_project_that_is_not_there_is_not_found(
    api_service: ApiService, project: str, method: str
) -> None:
    path = f"/api/projects/{project}/streams"
    answer = await api_service.client.request(
        method, path, headers=api_service.owner, json={"title": "x"} if method == "POST" else None
    )
    assert answer.status_code == 404
    assert set(answer.json()) == {"message"}
