"""Checks that hosts never change stored media of live streams."""

import json
from collections.abc import Collection, Mapping
from typing import Final

from storage.objects.s3_bucket import S3Location
from tests.support.storage.s3_server import S3Server

_ONCE: Final = (".m4s", ".mp4")


class WrittenOnce:
    """Compares the streams' objects over time.

    Attributes:
        faults: Objects whose bytes changed, and states written by an older owner.
    """

    def __init__(self, server: S3Server, bucket: S3Location, hashes: Collection[str]) -> None:
        self.faults: list[str] = []
        self._server = server
        self._place = bucket
        self._hashes = hashes
        self._seen: dict[str, str] = {}  # entity tags, by address
        self._generations: dict[str, int] = {}

    @property
    def names(self) -> int:
        """The number of immutable objects seen so far."""
        return len(self._seen)

    def refresh(self) -> None:
        """Compare the stored objects with those seen before."""
        location, server = self._place, self._server
        for hash_ in self._hashes:
            tags = server.versions(location.bucket, f"{location.prefix}/live/{hash_}/")
            for key, tag in tags.items():
                address = key.removeprefix(f"{location.prefix}/")
                if address.endswith(_ONCE):
                    earlier = self._seen.setdefault(address, tag)
                    if earlier != tag:
                        self.faults.append(f"{address} was {earlier}, is {tag}")
            states = [key for key in tags if key.endswith("/state.json")]
            for key in states:
                self._compare(key, json.loads(server.read(location.bucket, key))["generation"])

    def _compare(self, key: str, generation: int) -> None:
        if generation < self._generations.setdefault(key, generation):
            self.faults.append(f"{key}: an owner of generation {generation} wrote it again")
        self._generations[key] = generation

    def compare_with(self, digests: Mapping[str, str]) -> int:
        """Compare with the digests of a viewer's segments, and return how many are stored."""
        stored = 0
        for path, digest in digests.items():
            tag = self._seen.get(path.removeprefix("/"))
            stored += tag is not None
            if tag not in (None, digest):
                self.faults.append(f"{path}: a viewer got {digest}, stored is {tag}")
        return stored
