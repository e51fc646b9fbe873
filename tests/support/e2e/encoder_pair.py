"""A stream with two encoders: its addresses, its state, and the events of its owner."""

from typing import Any, cast

import msgspec

from tests.support.e2e.service import ServiceProcess, fetch

Json = dict[str, Any]  # Any: what the API answers


class EncoderPair(msgspec.Struct, frozen=True, kw_only=True):
    """A stream with one backup."""

    headend: ServiceProcess
    number: int
    hash: str
    key: str

    @property
    def playlist(self) -> str:
        return f"{self.headend.http}/live/{self.hash}/index.m3u8"

    @property
    def watch(self) -> str:
        return f"{self.headend.http}/watch/{self.hash}"

    def url(self, slot: int, *, port: int | None = None) -> str:
        """Return a slot's URL with its key, optionally through another loopback port."""
        host = self.headend.server.split("://")[1].rsplit("/", 1)[0]
        if port is not None:
            host = f"127.0.0.1:{port}"
        return f"rtmp://{host}/live{f'-backup-{slot}' if slot else ''}/{self.key}"

    def record(self) -> Json:
        """Return the stream's record."""
        answer = fetch(f"{self.headend.http}/api/streams/{self.number}", token=self.headend.token)
        assert answer.status == 200, answer.text
        return cast("Json", answer.json["data"])

    def receives(self) -> int:
        """Return the number of sending encoders."""
        return cast("int", self.record()["receiving_count"])

    def backup_is_on_air(self) -> bool:
        """Return whether the first backup is on air."""
        return cast("bool", self.record()["backups"][0]["publish"])

    def rungs_made(self, rungs: tuple[str, ...]) -> tuple[str, ...]:
        """Return the rungs without gaps: a busy machine sheds encoded ones."""
        log = self.headend.log.read_text()
        shed = f'event="rung shed" stream={self.hash} rendition='
        return tuple(rung for rung in rungs if f"{shed}{rung} " not in log)

    def command(self, name: str) -> Json:
        """Execute a command: pause, resume, end, failover-drill."""
        address = f"{self.headend.http}/api/streams/{self.number}/{name}"
        answer = fetch(address, method="POST", token=self.headend.token)
        assert answer.status == 200, (name, answer.status, answer.text)
        return answer.json

    def settle(self, **failover: object) -> None:
        """Set the failover settings."""
        address = f"{self.headend.http}/api/streams/{self.number}/settings"
        body = {"failover": failover}
        answer = fetch(address, method="PUT", token=self.headend.token, body=body)
        assert answer.status == 200, answer.text

    def listed_events(self, *kinds: str) -> list[Json]:
        """Return the stream's events (of these kinds, if any), oldest first."""
        events: list[Json] = []
        address = f"{self.headend.http}/api/projects/1/events?stream={self.number}"
        while True:
            answer = fetch(address, token=self.headend.token)
            assert answer.status == 200, answer.text
            events += cast("list[Json]", answer.json["data"])
            following = cast("Json", answer.json["links"])["next"]
            if following is None:
                break
            address = cast("str", following)
        ours = {each["id"]: each for each in events if each["subject"] == self.hash}
        chosen = [ours[number] for number in sorted(ours)]
        return [each for each in chosen if not kinds or each["type"] in kinds]


def pair(headend: ServiceProcess, title: str = "Two encoders") -> EncoderPair:
    """Add a stream."""
    stream = headend.add_stream(title)
    return EncoderPair(
        headend=headend,
        number=cast("int", stream["id"]),
        hash=cast("str", stream["hash"]),
        key=cast("str", stream["stream"]),
    )
