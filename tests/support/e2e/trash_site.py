"""An installation whose stream, video and project are deleted and restored; all their addresses.

The media are made up: what a test compares is who answers, and with which bytes.
"""

import asyncio
import http.client
import random
import signal
import time
from collections.abc import AsyncGenerator, Generator, Mapping
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from threading import Thread
from typing import Final, cast

from headend.install.installation import DATABASE
from headend.install.media_store import open_store
from storage.catalog import Catalog, open_catalog
from storage.catalog.records.common import Change
from storage.objects.s3_bucket import S3Location
from storage.objects.store import MediaStore
from tests.support.e2e.service import Answer, ServiceProcess, fetch, service
from tests.support.sql import run_sql
from tests.support.storage.s3_server import S3Server
from tests.support.storage.trashed_records import HASH, SLATE, Furnished, furnish

NOUNS: Final = ("stream", "video", "project")
_RUN: Final = "20260131T120000123"
_LIST: Final = b"#EXTM3U\n#EXT-X-TARGETDURATION:2\n#EXTINF:2,\n0.m4s\n#EXT-X-ENDLIST\n"
_VARIANTS: Final = "#EXTM3U\n#EXT-X-STREAM-INF:BANDWIDTH=1\n{}/360p/index.m3u8\n"


class TrashSite:
    """The installation; `database` is its URL, "" for SQLite, `bucket` where its media are."""

    def __init__(
        self, folder: Path, server: S3Server, *, database: str = "", in_bucket: bool = False
    ) -> None:
        self.data = folder / "data"
        self.location: str | Path = database or self.data / DATABASE
        self.furnished: Furnished | None = None
        self._server = server
        self._bucket: S3Location | None = server.new_bucket("media") if in_bucket else None
        self._database = database

    @contextmanager
    def serving(self) -> Generator[ServiceProcess]:
        """Run the service for the length of the block."""
        environment = {
            **({} if self._bucket is None else self._server.settings(self._bucket)),
            **({"HEADEND_DATABASE__URL": self._database} if self._database else {}),
            "HEADEND_STORAGE__MIN_FREE_BYTES": "0",
            "HEADEND_HOSTS__DEAD_SECONDS": "2",
            "HEADEND_API__REQUESTS_PER_MINUTE": "100000",
        }
        with service(self.data, environment=environment) as running:
            yield running

    @asynccontextmanager
    async def opened(self) -> AsyncGenerator[tuple[Catalog, MediaStore]]:
        """Open the catalog and the store, which no process uses."""
        with open_store(self.data, self._bucket) as store:
            async with open_catalog(self.location, migrate=False) as catalog:
                await catalog.clock.synchronize()
                yield catalog, store

    def fill(self) -> Furnished:
        """Begin the installation, and add a project with a stream and a video, and their media."""
        with self.serving() as first:
            assert first.stop() == 0
        self.furnished = asyncio.run(self._fill())
        return self.furnished

    async def _fill(self) -> Furnished:
        async with self.opened() as (catalog, store):
            now_us = catalog.clock.now_us()
            other = await catalog.projects.add("Furnished", Change(now_us))
            made = await furnish(catalog, self.location, other, now_us=now_us)
            await catalog.streams.set_posters(made.stream.hash, ["360p"], (640, 360), now_us=now_us)
            run_sql(
                self.location,
                f"UPDATE videos SET previews = 'previews-2-2' WHERE hash = '{HASH}'",  # a constant
            )
            live, film = f"live/{made.stream.hash}", f"videos/{HASH}"
            await store.put_all(
                {
                    f"{live}/index.m3u8": _VARIANTS.format(_RUN).encode(),
                    f"{live}/{_RUN}/360p/index.m3u8": _LIST,
                    f"{live}/{_RUN}/360p/init-1.mp4": b"init",
                    f"{live}/{_RUN}/360p/0.m4s": b"segment",
                    f"{live}/poster/360p.jpg": b"poster",
                    f"slates/s-{made.stream.hash}/{SLATE}.jpg": b"slate",
                    f"slates/p-{other.key}/{SLATE}.jpg": b"slate",
                    f"{film}/2-2/index.m3u8": _VARIANTS.format("2-2").encode(),
                    f"{film}/2-2/360p/index.m3u8": _LIST,
                    f"{film}/2-2/360p/init-1.mp4": b"init",
                    f"{film}/2-2/360p/0.m4s": b"segment",
                    f"{film}/2-2/subs/0.vtt": b"WEBVTT\n",
                    f"{film}/poster-1-1/360p.jpg": b"poster",
                    f"{film}/previews-2-2/previews.vtt": b"WEBVTT\n",
                    f"{film}/previews-2-2/sheet-0.jpg": b"sheet",
                    f"sources/{HASH}/1": b"former",
                    f"sources/{HASH}/r-two": b"file",
                }
            )
            return made

    # -- addresses --------------------------------------------------------------------------------

    def addresses(self, noun: str) -> list[str]:
        """Return all addresses at which viewers, players and owners find what has a noun."""
        made = self.furnished
        assert made is not None
        hash_, key, number = made.stream.hash, made.project.key, made.project.id
        if noun == "stream":
            live, owned = f"/live/{hash_}", f"/api/streams/{made.stream.id}"
            return [
                f"{live}/index.m3u8",
                f"{live}/{_RUN}/360p/index.m3u8",
                f"{live}/{_RUN}/360p/init-1.mp4",
                f"{live}/{_RUN}/360p/0.m4s",
                f"{live}/poster/360p.jpg",
                f"{live}/poster/default.jpg",
                f"/slates/s-{hash_}/{SLATE}.jpg",
                f"/watch/{hash_}",
                f"/embed/{hash_}",
                f"/oembed?url={{http}}/watch/{hash_}",
                *(f"{owned}{each}" for each in ("", "/settings")),
            ]
        if noun == "video":
            film, owned = f"/videos/{HASH}", f"/api/videos/{made.video}"
            return [
                f"{film}/index.m3u8",
                f"{film}/2-2/360p/index.m3u8",
                f"{film}/2-2/360p/init-1.mp4",
                f"{film}/2-2/360p/0.m4s",
                f"{film}/2-2/subs/0.vtt",
                f"{film}/poster/360p.jpg",
                f"{film}/poster/default.jpg",
                f"{film}/previews-2-2/previews.vtt",
                f"{film}/previews-2-2/sheet-0.jpg",
                f"/watch/{HASH}",
                f"/embed/{HASH}",
                f"/json/videos/{HASH}.json",
                f"/oembed?url={{http}}/watch/{HASH}",
                *(f"{owned}{each}" for each in ("", "/status", "/file")),
            ]
        names = (
            "streams",
            "videos",
            "tags",
            "categories",
            "players",
            "events",
            "trash",
            "settings",
        )
        return [
            *self.addresses("stream"),
            *self.addresses("video"),
            f"/json/projects/{key}.json",
            f"/slates/p-{key}/{SLATE}.jpg",
            *(f"/api/projects/{each}" for each in (number, key)),
            *(f"/api/projects/{key}/{name}" for name in names),
            f"/api/projects/{key}/settings",
            "/api/tags/1",
            "/api/categories/1",
            "/api/players/1",
        ]

    def ask(self, running: ServiceProcess, path: str, method: str = "GET") -> Answer:
        """Send a request, with the owner's token if it is one of the API."""
        path = path.replace("{http}", running.http)
        token = running.token if path.startswith("/api") else None
        return fetch(f"{running.http}{path}", method=method, token=token)

    def answers(self, running: ServiceProcess, noun: str) -> dict[str, tuple[int, bytes]]:
        """Return what each address answers."""
        found: dict[str, tuple[int, bytes]] = {}
        for path in self.addresses(noun):
            answer = self.ask(running, path)
            found[path] = answer.status, b"" if path.startswith(("/api", "/json")) else answer.body
        return found

    def operations(self, running: ServiceProcess, noun: str) -> list[tuple[str, str]]:
        """Return all operations of the description whose path names a record of a noun."""
        made = self.furnished
        assert made is not None
        numbers = {"stream": made.stream.id, "video": made.video, "project": made.project.id}
        place = f"{{{noun}_id}}"
        document = self.ask(running, "/schema/openapi.json").json
        paths = document["paths"]
        assert isinstance(paths, Mapping)
        found: list[tuple[str, str]] = []
        for path, methods in cast("Mapping[str, Mapping[str, object]]", paths).items():  # JSON
            if place in path:
                filled = path.replace(place, str(numbers[noun])).replace("{backup_id}", "1")
                found += [(each.upper(), filled) for each in methods]
        return found

    def doors(self, running: ServiceProcess, noun: str) -> dict[str, bool]:
        """Return which web-socket channels and upload links of what has a noun can be used."""
        made = self.furnished
        assert made is not None
        of_stream, of_video = f"stream.{made.stream.hash}", f"video.{HASH}"
        channels = {"stream": [of_stream], "video": [of_video]}.get(
            noun,
            [of_stream, of_video, f"project.{made.project.key}", f"project.{made.project.id}"],
        )
        found: dict[str, bool] = {}
        for channel in channels:
            wish = {"socket_id": "1.1", "channel_name": f"private-{channel}"}
            url = f"{running.http}/broadcasting/auth"
            status = fetch(url, method="POST", token=running.token, body=wish).status
            assert status in {200, 403}, (channel, status)
            found[channel] = status == 200
        if noun != "stream":
            # It has no length: one that can be used finds fault with that.
            url, headers = (
                f"{running.http}/api/upload-links/{made.link}",
                {"Tus-Resumable": "1.0.0"},
            )
            status = fetch(url, method="POST", headers=headers).status
            assert status in {400, 404}, status
            found["upload link"] = status == 400
        return found

    # -- changes ----------------------------------------------------------------------------------

    def delete(self, running: ServiceProcess, noun: str) -> int:
        """Delete what has a noun; return the status."""
        made = self.furnished
        assert made is not None
        number = {"stream": made.stream.id, "video": made.video, "project": made.project.id}[noun]
        return self.ask(running, f"/api/{noun}s/{number}", "DELETE").status

    def in_trash(self, running: ServiceProcess, noun: str) -> int | None:
        """Return the number of what has a noun in the trash; None if it is not there."""
        made = self.furnished
        assert made is not None
        path = "/api/trash" if noun == "project" else f"/api/projects/{made.project.id}/trash"
        data = self.ask(running, path).json.get("data", [])
        assert isinstance(data, list)
        numbers = [each["id"] for each in data if each["kind"] == noun]  # pyright: ignore[reportUnknownVariableType]  # JSON
        return int(numbers[0]) if numbers else None  # pyright: ignore[reportUnknownArgumentType]  # JSON

    def restore(self, running: ServiceProcess, number: int) -> int:
        """Restore something from the trash; return the status."""
        return self.ask(running, f"/api/trash/{number}/restore", "POST").status

    def kill_during_changes(self, chance: random.Random, seconds: float) -> None:
        """Delete and restore one after the other, and kill the process at a random moment."""
        with self.serving() as running:
            thread = Thread(target=self._change, args=(running, chance.choice(NOUNS)))
            thread.start()
            time.sleep(chance.uniform(0.0, seconds))
            running.stop(signal.SIGKILL)
            thread.join()

    def _change(self, running: ServiceProcess, noun: str) -> None:
        """Delete and restore until the service is gone."""
        try:
            while True:
                self.delete(running, noun)
                number = self.in_trash(running, noun)
                if number is not None:
                    self.restore(running, number)
        except (OSError, http.client.HTTPException, ValueError):
            return  # an answer was cut off
