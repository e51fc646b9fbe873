"""Forms with files that arrive in one piece, in two, byte by byte, or never completely."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from random import Random
from typing import Any

import pytest
from litestar import Litestar, Request, post

from api.http.errors import ApiError
from api.http.multipart import FileField, MultipartForm, read_form
from api.schemas.text_fields import OptionalTitle
from storage.objects.disk import DiskObjects
from storage.objects.incoming_file import open_incoming_file

BOUNDARY = "ab"
LIMIT = 100  # bytes of the file
DATA = b"\r\n--a\r\n--\r\n-\0\xff"  # looks like the end, and is not
FORM = (
    b'--ab\r\nContent-Disposition: form-data; name="title"\r\n\r\nA film\r\n'
    b'--ab\r\nContent-Disposition: form-data; name="video"; filename="a.mp4"\r\n\r\n'
    + DATA
    + b"\r\n--ab--\r\nan epilogue"
)
READ = ({"title": "A film"}, {"video": "a.mp4"}, DATA)

Read = tuple[dict[str, str], dict[str, str], bytes]


@asynccontextmanager
async def form_reader(
    folder: Path, stall_seconds: float = 30
) -> AsyncGenerator[Callable[..., Any]]:  # Any: a coroutine of what `Read` or an error is
    """Yield a function that reads chunks as a form, and returns its parts or the refusal."""
    results: list[Read | ApiError] = []

    @post("/")
    async def read(request: Request[Any, Any, Any]) -> None:
        async with open_incoming_file(objects, max_bytes=LIMIT) as file:
            try:
                form: MultipartForm = await read_form(
                    request,
                    texts={"title": OptionalTitle.parse},
                    files={"video": FileField(inflow=file, limit_text=f"{LIMIT} bytes")},
                    stall_seconds=stall_seconds,
                )
            except ApiError as error:
                results.append(error)
                return
            await file.flush()
            results.append((form.texts, form.files, file.path.read_bytes() if file.size else b""))

    app = Litestar([read], logging_config=None)

    async def run(chunks: Sequence[bytes], *, ends: bool = True) -> Read | ApiError:
        pending = list(chunks)

        async def receive() -> Any:  # ASGI's own map
            if not pending and not ends:
                await asyncio.Event().wait()
            body = pending.pop(0) if pending else b""
            return {"type": "http.request", "body": body, "more_body": bool(pending) or not ends}

        async def send(_message: object) -> None:
            pass

        kind = f"multipart/form-data; boundary={BOUNDARY}".encode()
        scope: Any = {
            "type": "http", "method": "POST", "path": "/", "raw_path": b"/", "query_string": b"",
            "root_path": "", "client": None, "server": None, "scheme": "http",
            "headers": [(b"content-type", kind)],
        }  # fmt: skip
        await app(scope, receive, send)
        return results.pop()

    with DiskObjects(folder) as objects:
        yield run


async def test_a_form_is_the_same_however_it_is_cut(tmp_path: Path) -> None:
    async with form_reader(tmp_path) as read:
        assert await read([FORM]) == READ
        assert await read([FORM[index : index + 1] for index in range(len(FORM))]) == READ
        for cut in range(1, len(FORM)):
            assert await read([FORM[:cut], FORM[cut:]]) == READ, cut


async def test_a_form_that_breaks_off_anywhere_is_refused(tmp_path: Path) -> None:
    end = FORM.index(b"--ab--") + len(b"--ab--")
    async with form_reader(tmp_path) as read:
        for length in range(end):
            refused = await read([FORM[:length]])
            assert isinstance(refused, ApiError), length
            assert refused.status_code == 400, length


async def test_damaged_forms_are_read_or_refused(tmp_path: Path) -> None:
    random = Random(1)
    async with form_reader(tmp_path) as read:
        for _ in range(300):
            damaged = bytearray(FORM)
            for _ in range(random.randint(1, 8)):
                damaged[random.randrange(len(damaged))] = random.randrange(256)
            result = await read([bytes(damaged)])
            if isinstance(result, ApiError):
                assert result.status_code in (400, 413, 422)
            else:
                assert set(result[0]) <= {"title"}
                assert set(result[1]) <= {"video"}


@pytest.mark.parametrize(
    ("size", "status"), [(LIMIT, None), (LIMIT + 1, 413)], ids=["the limit", "a byte more"]
)
async def test_a_file_is_bounded(tmp_path: Path, size: int, status: int | None) -> None:
    form = FORM.replace(DATA, b"x" * size)
    async with form_reader(tmp_path) as read:
        result = await read([form])
    if status is None:
        assert result == (*READ[:2], b"x" * size)
    else:
        assert result.status_code == status
        assert result.errors == {"video": ["The video may have at most 100 bytes."]}


async def test_a_sender_that_stops_is_answered_with_408(tmp_path: Path) -> None:
    async with form_reader(tmp_path, stall_seconds=0.05) as read:
        refused = await read([FORM[:100]], ends=False)
    assert (refused.status_code, refused.headers) == (408, {"Connection": "close"})
