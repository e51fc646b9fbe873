"""What the commands about backups print, and their exit codes."""

from pathlib import Path

from tests.support.headend.backed_up import HASH, BackedUpSite


def test_a_backup_is_printed_listed_and_restored(tmp_path: Path) -> None:
    site = BackedUpSite.installed(tmp_path)
    site.changed = {"backup__to": str(site.place)}
    made = site.run("backup")
    (name,) = site.names
    assert (made.exit_code, made.output.splitlines()) == (0, [
        f"backup {name} in {site.place}: 4 objects, 850 B; copied 4 now, 850 B",
    ])  # fmt: skip
    listed = site.run("backup", "--list").output.rstrip("\n").split("\t")
    assert (listed[:3], listed[4]) == ([name, "4 objects", "850 B"], "whole")
    restored = site.run("restore", data=tmp_path / "new").output.splitlines()
    new = tmp_path / "new"
    assert restored[0] == (
        f"restored {name}: 4 objects, 850 B, to {new}/objects, and the database to"
        f" {new}/catalog.sqlite"
    )


def test_a_stream_with_lost_segments_is_named(tmp_path: Path) -> None:
    site = BackedUpSite.installed(tmp_path)
    (hash_,) = stream_of(site)
    folder = site.data / f"objects/live/{hash_}/1/360p"
    folder.mkdir(parents=True)
    (folder / "index.m3u8").write_text("#EXTM3U\n0.m4s\n")
    made = site.run("backup", str(site.place))
    assert made.exit_code == 0
    assert f"live/{hash_}: its playlists list segments" in made.output
    assert HASH not in made.output


def stream_of(site: BackedUpSite) -> list[str]:
    return [line.split("\t")[1] for line in site.run("streams").output.splitlines()]
