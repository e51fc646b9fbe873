"""A real service's responses compared with the description at /schema, by schemathesis.

It makes valid and invalid requests from the description, and compares the status, type, headers and
body of each response. No operation may fail with 500, or respond in a way that is not described.
"""

import json
import os
import subprocess
import sys
from collections.abc import Generator
from pathlib import Path

import httpx
import pytest

from tests.support.api.upload_clips import clip
from tests.support.e2e.added_records import add_record, add_video
from tests.support.e2e.service import SCALE, ServiceProcess, fetch, service

pytestmark = pytest.mark.e2e

SCHEMATHESIS = Path(sys.executable).with_name("schemathesis")
CHECKS = (
    "not_a_server_error",
    "status_code_conformance",
    "content_type_conformance",
    "response_headers_conformance",
    "response_schema_conformance",
    "missing_required_header",
    "unsupported_method",
    "allow_header_conformance",
    "ignored_auth",
)


# The media type of a body of bytes in tus.
HOOKS = """
import schemathesis
schemathesis.serializer.alias("application/offset+octet-stream", "application/octet-stream")
"""


ENVIRONMENT = {
    "HEADEND_API__REQUESTS_PER_MINUTE": "0",
    "HEADEND_API__ATTEMPTS_PER_MINUTE": "0",
    "HEADEND_STORAGE__MIN_FREE_BYTES": "0",
    # The addresses that it makes up must not be contacted.
    "HEADEND_IMPORTS__AT_ONCE": "0",
}


@pytest.fixture
def running(tmp_path: Path) -> Generator[ServiceProcess]:
    """A service for arbitrary requests, which fill it with records."""
    with service(tmp_path / "data", environment=ENVIRONMENT) as running:
        yield running


@pytest.fixture(scope="module")
def unlimited(tmp_path_factory: pytest.TempPathFactory) -> Generator[ServiceProcess]:
    """A service for sensible requests."""
    folder = tmp_path_factory.mktemp("openapi")
    with service(folder / "data", environment=ENVIRONMENT) as running:
        yield running


def begun(running: ServiceProcess) -> str:
    """Begin a resumable upload and return its name."""
    answer = httpx.post(
        f"{running.http}/api/projects/1/uploads",
        headers={
            "Authorization": f"Bearer {running.token}",
            "Tus-Resumable": "1.0.0",
            "Upload-Length": "1000",
        },
        timeout=60 * SCALE,
    )
    assert answer.status_code == 201, answer.text
    return answer.headers["Location"].rsplit("/", 1)[1]


def numbers(running: ServiceProcess) -> dict[str, int | str]:
    """Add a record of each kind, and return the ids in paths (of an upload, its name)."""
    stream = add_record(running, "projects/1/streams", "stream", title="Stream")
    deleted = add_record(running, "projects/1/streams", "stream", title="Deleted")
    fetch(f"{running.http}/api/streams/{deleted}", method="DELETE", token=running.token)
    return {
        "trash_id": 1,
        "project_id": 1,
        "stream_id": stream,
        "video_id": add_video(running),
        "upload_name": begun(running),
        "link_id": add_record(running, "projects/1/upload-links", "upload_link"),
        "backup_id": add_record(running, f"streams/{stream}/backups", "backup"),
        "tag_id": add_record(running, "projects/1/tags", "tag", name="Tag"),
        "category_id": add_record(running, "projects/1/categories", "category", name="Category"),
        "player_id": add_record(running, "projects/1/players", "player", name="Player"),
        "token_id": add_record(running, "tokens", "token", name="Token", project=1, write=False),
    }


def run_schemathesis(running: ServiceProcess, folder: Path, *options: str) -> str:
    """Run schemathesis, and return its output."""
    settings = folder / "schemathesis.toml"
    if not settings.exists():
        ids = numbers(running)
        lines = "".join(f'"path.{name}" = {number!r}\n' for name, number in ids.items())
        # tus has a special status for requests without its version.
        statuses = "[checks.missing_required_header]\nexpected-statuses = ['4xx']\n"
        settings.write_text(f"[parameters]\n{lines}{statuses}")
        (folder / "hooks.py").write_text(HOOKS)
    done = subprocess.run(
        [
            SCHEMATHESIS, "--config-file", settings,
            "run", f"{running.http}/schema/openapi.json",
            "--header", f"Authorization: Bearer {running.token}",
            "--checks", ",".join(CHECKS), "--suppress-health-check", "all",
            "--continue-on-failure", "--seed", "1", "--no-color", *options,
        ],
        cwd=folder, env={**os.environ, "SCHEMATHESIS_HOOKS": "hooks"},
        capture_output=True, text=True, timeout=900 * SCALE, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]
    return done.stdout


def test_the_service_answers_what_its_description_says(
    running: ServiceProcess, tmp_path: Path
) -> None:
    """Each operation twice; `make prove` covers each boundary of each parameter."""
    run_schemathesis(
        running, tmp_path, "--phases", "fuzzing", "-n", "2", "--exclude-method", "DELETE"
    )
    run_schemathesis(running, tmp_path, "--phases", "coverage", "--include-method", "DELETE")
    log = running.log.read_text()
    assert "request failed" not in log
    assert running.token not in log


@pytest.mark.prove
def test_the_service_answers_what_its_description_says_at_length(
    running: ServiceProcess, tmp_path: Path
) -> None:
    run_schemathesis(
        running, tmp_path, "--phases", "coverage,fuzzing", "-n", "100", "--exclude-method", "DELETE"
    )
    run_schemathesis(running, tmp_path, "--phases", "stateful", "-n", "50")
    assert "request failed" not in running.log.read_text()


def test_every_operation_has_a_unique_name_and_every_reference_exists(
    unlimited: ServiceProcess,
) -> None:
    document = json.loads(fetch(f"{unlimited.http}/schema/openapi.json").body)
    assert document["openapi"].startswith("3.1")
    operations = [each for path in document["paths"].values() for each in path.values()]
    names = [operation["operationId"] for operation in operations]
    assert len(names) > 45
    assert len(set(names)) == len(names)
    for operation in operations:
        answers = operation["responses"]
        assert {"400", "401", "429", "500", "503"} <= set(answers), operation["operationId"]
        assert answers["429"]["headers"]["Retry-After"]["required"]
        assert operation["summary"]
        assert operation["security"]
    # Every reference leads to a shape.
    text = json.dumps(document)
    for name in {each.split('"')[0] for each in text.split('"$ref": "')[1:]}:
        assert name.startswith("#/components/schemas/")
        assert name.rpartition("/")[2] in document["components"]["schemas"]


# A program that uses the generated client and its types.
PROGRAM = """
import sys

from theirs import AuthenticatedClient
from theirs.api.streams import add_stream, edit_stream, list_streams
from theirs.api.tags import list_tags
from theirs.api.videos import upload_video
from theirs.models import (
    AddStreamStreamAddition, EditStreamStreamEdit, EditStreamStreamEditTagReference, ErrorBody,
    UploadVideoBody,
)
from theirs.types import File

http, token, clip = sys.argv[1:]
client = AuthenticatedClient(base_url=http, token=token)
added = add_stream.sync("1", client=client, body=AddStreamStreamAddition(title="Through a client"))
assert added.stream.published is False and added.stream.category is None
tags = [EditStreamStreamEditTagReference(name="new")]
edit = EditStreamStreamEdit(tags=tags, countries=["RO", 276])
edited = edit_stream.sync(added.stream.id, client=client, body=edit)
assert [tag.name for tag in edited.stream.tags] == ["new"]
assert sorted(country.id for country in edited.stream.countries) == [276, 642]
listed = list_streams.sync("1", client=client, search="client")
assert [item.id for item in listed.data] == [added.stream.id]
assert listed.meta.total == 1 and listed.meta.from_ == 1
assert [tag.name for tag in list_tags.sync("1", client=client).data] == ["new"]
refused = add_stream.sync("1", client=client, body=AddStreamStreamAddition(title=""))
assert isinstance(refused, ErrorBody) and refused.errors["title"]
with open(clip, "rb") as file:
    body = UploadVideoBody(video=File(payload=file, file_name="clip.mp4"), title="Sent")
    sent = upload_video.sync("1", client=client, body=body)
assert not isinstance(sent, ErrorBody), sent
assert sent.video.title == "Sent" and sent.video.width == 640
print("done")
"""


def test_a_client_made_from_the_description_works(
    unlimited: ServiceProcess, tmp_path: Path
) -> None:
    generator = Path(sys.executable).with_name("openapi-python-client")
    made_so = subprocess.run(
        [generator, "generate", "--url", f"{unlimited.http}/schema/openapi.json", "--meta", "none",
         "--output-path", tmp_path / "theirs"],
        capture_output=True, text=True, timeout=120 * SCALE, check=False,
        env={**os.environ, "PATH": f"{generator.parent}:{os.environ['PATH']}"},
    )  # fmt: skip
    assert made_so.returncode == 0, made_so.stdout + made_so.stderr
    assert "Warning" not in made_so.stdout, made_so.stdout
    (tmp_path / "clip.mp4").write_bytes(clip())
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, unlimited.http, unlimited.token, tmp_path / "clip.mp4"],
        cwd=tmp_path, capture_output=True, text=True, timeout=120 * SCALE, check=False,
    )  # fmt: skip
    assert done.stdout == "done\n", done.stderr
