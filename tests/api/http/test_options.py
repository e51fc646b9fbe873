"""OPTIONS names every method of an address."""

import pytest

from tests.support.api.application import STREAMS, ApiService


@pytest.mark.parametrize(
    ("path", "methods"),
    [
        (STREAMS, "GET, OPTIONS, POST"),
        ("/api/projects/1", "DELETE, GET, OPTIONS, PUT"),
        ("/api/countries", "GET, OPTIONS"),
    ],
)
async def test_options_and_a_wrong_method_name_the_same(
    api_service: ApiService, path: str, methods: str
) -> None:
    answer = await api_service.client.options(path, headers=api_service.owner)
    assert (answer.status_code, answer.headers["allow"]) == (204, methods)
    wrong = await api_service.client.patch(path, headers=api_service.owner)
    assert wrong.status_code == 405
    assert sorted(wrong.headers["allow"].split(", ")) == methods.split(", ")
