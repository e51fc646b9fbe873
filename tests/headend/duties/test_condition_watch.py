"""What is wrong with a machine is told while it lasts, by the name of its host."""

from pathlib import Path

import msgspec
import pytest

from headend.config.settings import ServiceSettings
from headend.duties.condition_watch import disk_problem, watch_conditions
from headend.install.installation import catalog_location
from media.ticks import DAY_US
from storage.catalog import open_catalog
from storage.catalog.records.alerts import INSTALLATION, AlertEdit
from storage.catalog.records.common import Change
from storage.wall_clock import wall_clock_us
from tests.support.headend.installed import installed

GIB = 1 << 30


@pytest.mark.parametrize(
    ("total", "free", "expected"),
    [
        (100 * GIB, 6 * GIB, None),
        (100 * GIB, 4 * GIB, "4.0 GiB are free; new media are refused below 1.0 GiB."),
        (100 * GIB, GIB // 2, "512.0 MiB are free: new media are refused."),
        (10_000 * GIB, 60 * GIB, None),
        (10_000 * GIB, 49 * GIB, "49.0 GiB are free; new media are refused below 1.0 GiB."),
        (10 * GIB, 3 * GIB, None),
        (10 * GIB, 3 * GIB // 2, "1.5 GiB are free; new media are refused below 1.0 GiB."),
    ],
)
def test_a_disk_is_nearly_full_before_media_are_refused(
    total: int, free: int, expected: str | None
) -> None:
    assert disk_problem(total, free, GIB) == expected


async def test_it_is_told_once_and_ends(tmp_path: Path) -> None:
    settings = await installed(tmp_path)
    full = msgspec.structs.replace(
        settings, storage=msgspec.structs.replace(settings.storage, min_free_bytes=1 << 60)
    )
    async with open_catalog(catalog_location(settings), migrate=False) as catalog:
        edit = AlertEdit(to=("ops@a.example",))
        await catalog.recipients.change(INSTALLATION, edit, Change(1))
        for _ in range(3):
            await watch_conditions(full, catalog, tmp_path, host="one")
            await catalog.conditions.tell_due(catalog.clock.now_us())
        now_us = catalog.clock.now_us()
        bundle = await catalog.mailings.lease_due("x", now_us + DAY_US // 24)
        assert bundle is not None
        assert bundle.total == 1
        text = str(bundle.alerts[0].facts["text"])
        assert text.startswith("On one: ")
        assert text.endswith("are free: new media are refused.")
        await watch_conditions(settings, catalog, tmp_path, host="one")
        assert await catalog.conditions.tell_due(now_us + 3 * DAY_US) == 0


async def test_a_certificate_near_its_end_is_told(tmp_path: Path) -> None:
    settings = await installed(tmp_path)
    certificate = tmp_path / "bad.pem"
    certificate.write_text("none")
    bad = msgspec.structs.replace(
        settings,
        rtmps=msgspec.structs.replace(settings.rtmps, certificate=str(certificate)),
    )
    async with open_catalog(catalog_location(settings), migrate=False) as catalog:
        await watch_conditions(bad, catalog, tmp_path, host="one", now_us=wall_clock_us)
        assert await catalog.conditions.tell_due(catalog.clock.now_us()) == 1


def test_by_default_it_is_quiet() -> None:
    assert ServiceSettings().mail.server == ""
