"""The installation report over the API, which requires a token for all projects."""

from collections.abc import AsyncGenerator, Sequence
from pathlib import Path

import pytest

from api.operations.report import Finding, LoggedProblem
from headend.roles.operations import InstallationReporter
from storage.catalog.records.common import Change
from tests.support.api.application import NOW_US, ApiService
from tests.support.api.operations_site import operations_site
from tests.support.storage.new_videos import new_video

LINE = LoggedProblem(at_us=NOW_US, level="warning", event="rung shed", facts={"stream": "AAAA"})


async def no_problems() -> list[str]:
    return []


class SlowReporter(InstallationReporter):
    """A reporter whose examination does not end in time."""

    async def examine(self) -> Sequence[Finding]:
        raise TimeoutError


@pytest.fixture(params=[InstallationReporter])
async def operations_service(
    request: pytest.FixtureRequest, tmp_path: Path
) -> AsyncGenerator[ApiService]:
    async with operations_site(
        tmp_path / "data", problems=no_problems, line=LINE, write=False, reporter=request.param
    ) as opened:
        yield opened


async def test_the_installation_is_shown(operations_service: ApiService) -> None:
    await operations_service.catalog.videos.add(1, new_video(title="Film"), Change(NOW_US))
    answer = await operations_service.client.get(
        "/api/operations", headers=operations_service.owner
    )
    assert answer.status_code == 200, answer.text
    data = answer.json()["data"]
    assert set(data) == {
        "versions", "machine", "room", "disk", "hosts", "queue", "problems", "concerns", "logged",
    }  # fmt: skip
    assert data["room"] == {"more": 3, "basis": "usual"}
    assert data["hosts"] == data["problems"] == []
    # No worker transcodes here.
    assert [each["topic"] for each in data["concerns"]] == ["jobs"]
    assert data["queue"]["counts"] == [{"kind": "transcode", "state": "queued", "number": 1}]
    (job,) = data["queue"]["jobs"]
    assert (job["title"], job["state"], job["progress"]) == ("Film", "queued", 0)
    assert data["logged"] == [
        {
            "at": "2023-11-14T22:13:20.123456Z",
            "level": "warning",
            "event": "rung shed",
            "facts": {"stream": "AAAA"},
        }
    ]


async def test_what_needs_an_operator_is_named(
    operations_service: ApiService, tmp_path: Path
) -> None:
    (tmp_path / "data" / "tls").mkdir(exist_ok=True)
    (tmp_path / "data" / "tls" / "rtmps.pem").write_text("no certificate")
    answer = await operations_service.client.get(
        "/api/operations", headers=operations_service.owner
    )
    (concern,) = answer.json()["data"]["concerns"]
    assert (concern["topic"], concern["verdict"]) == ("certificate rtmps.pem", "act")
    assert "cannot be read" in concern["text"]


async def test_the_doctor_examines(operations_service: ApiService) -> None:
    answer = await operations_service.client.get(
        "/api/operations/doctor", headers=operations_service.owner
    )
    assert answer.status_code == 200, answer.text
    data = answer.json()["data"]
    assert data["healthy"] is (not any(each["verdict"] == "act" for each in data["findings"]))
    assert "database" in {each["topic"] for each in data["findings"]}


@pytest.mark.parametrize("operations_service", [SlowReporter], indirect=True)
async def test_an_examination_that_takes_too_long_says_what_to_do(
    operations_service: ApiService,
) -> None:
    answer = await operations_service.client.get(
        "/api/operations/doctor", headers=operations_service.owner
    )
    assert answer.status_code == 503
    assert "headend doctor" in answer.json()["message"]


async def test_a_token_of_one_project_is_refused(operations_service: ApiService) -> None:
    theirs = await operations_service.headers_of("theirs", 1, write=True)
    for path in ("/api/operations", "/api/operations/doctor"):
        assert (await operations_service.client.get(path, headers=theirs)).status_code == 403
        assert (await operations_service.client.get(path)).status_code == 401


async def test_a_service_without_a_reporter_has_no_such_operation(api_service: ApiService) -> None:
    answer = await api_service.client.get("/api/operations", headers=api_service.owner)
    assert answer.status_code == 404
