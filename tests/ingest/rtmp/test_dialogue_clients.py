"""Whole dialogues of encoders that cannot be run here, by the byte, from their public sources.

HaishinKit (iOS): `RTMPConnection.swift`, `RTMPStream.swift`, `RTMPMessage.swift` of 2025.
RootEncoder (Android): `RtmpClient.kt`, `CommandsManagerAmf0.kt`, `CommandsManagerAmf3.kt` of 2025.
The tests check that the answers have everything that these encoders wait for.
"""

from collections.abc import Iterator

import pytest

from ingest.rtmp import amf0
from ingest.rtmp.amf import Amf
from ingest.rtmp.amf0 import EcmaArray
from ingest.rtmp.events import Connected, Event, Goodbye, PublishRequested, TrackFound
from ingest.rtmp.messages import MessageType
from ingest.rtmp.session import Session
from media.track import AudioCodec, VideoCodec
from tests.support.ingest import rtmp_peer as encoder
from tests.support.ingest.coded_streams import flv, tags_in
from tests.support.ingest.rtmp_peer import HANDSHAKE, NAME, session

VIDEO, AUDIO = int(MessageType.VIDEO), int(MessageType.AUDIO)
COMMAND, COMMAND_AMF3 = MessageType.COMMAND, MessageType.COMMAND_AMF3
URL = "rtmp://tv.example/live"


class ScriptedClient:
    """Sends messages to a session one by one, and records the answers."""

    def __init__(self) -> None:
        self.server: Session = session()
        self.events: list[Event] = []
        self.size = 128
        self.send_bytes(HANDSHAKE)
        self._answers = self.server.outgoing()[3073:]

    def send_bytes(self, data: bytes) -> None:
        for index in range(len(data)):  # byte by byte, as over the slowest network
            self.events += self.server.receive(data[index : index + 1], 0.0)

    def send(self, number: int, kind: int, body: bytes, *, stamp: int = 0, stream: int = 0) -> None:
        self.send_bytes(
            encoder.message(number, kind, body, stamp=stamp, stream=stream, size=self.size)
        )

    def command(
        self, number: int, name: str, transaction: float, *values: Amf, stream: int = 0
    ) -> None:
        self.send(number, COMMAND, amf0.encode(name, transaction, *values), stream=stream)

    def chunk_size(self, size: int) -> None:
        self.send(2, MessageType.SET_CHUNK_SIZE, size.to_bytes(4, "big"))
        self.size = size

    def answered(self) -> list[tuple[int, list[Amf]]]:
        """Return (message stream, values) of each answer so far."""
        self._answers += self.server.outgoing()
        return encoder.answered_commands(self._answers)

    def result(self, transaction: float) -> list[Amf]:
        """Return the values after the command object in the answer to a transaction."""
        for stream, values in self.answered():
            if values[:2] == ["_result", transaction]:
                assert stream == 0
                return values[3:]
        pytest.fail(f"no answer to {transaction}")

    def status(self, stream: int) -> list[str]:
        """Return the codes of all onStatus commands on a message stream."""
        self.answered()
        return [code for number, _, code in encoder.statuses(self._answers) if number == stream]


def haishinkit_connect() -> dict[str, Amf]:
    codecs: list[Amf] = ["hvc1", "Opus"]
    return {
        "objectEncoding": 0.0,
        "app": "live",
        "flashVer": "FMLE/3.0 (compatible; FMSc/1.0)",
        "swfUrl": None,
        "tcUrl": URL,
        "fpad": False,
        "capabilities": 239.0,
        "audioCodecs": 1024.0,
        "videoCodecs": 128.0,
        "videoFunction": 1.0,
        "pageUrl": None,
        "fourCcList": codecs,
        "videoFourCcInfoMap": {"hvc1": 3.0},
        "audioFourCcInfoMap": {"Opus": 2.0},
        "capsEx": 0.0,
    }


def bodies(picture: str, sound: str) -> Iterator[tuple[int, int, bytes]]:
    return (tag for tag in tags_in(flv(picture, sound)) if tag[0] in (VIDEO, AUDIO))


@pytest.mark.parametrize("with_fc_publish", [False, True])
def test_haishinkit_publishes_and_ends_without_a_timeout(with_fc_publish: bool) -> None:
    phone = ScriptedClient()
    phone.command(3, "connect", 1.0, haishinkit_connect())
    (info,) = phone.result(1.0)
    assert isinstance(info, dict)
    assert info["code"] == "NetConnection.Connect.Success"
    # Only now, and before createStream.
    phone.chunk_size(8192)
    transaction = 2.0
    if with_fc_publish:
        phone.command(3, "releaseStream", 2.0, None, NAME)
        phone.command(3, "FCPublish", 3.0, None, NAME)
        phone.result(2.0)
        phone.result(3.0)
        transaction = 4.0
    phone.command(3, "createStream", transaction, None)
    # Its stream's number is the first argument, and a double.
    assert phone.result(transaction) == [1.0]
    phone.command(3, "publish", 0.0, None, NAME, "live", stream=1)
    assert isinstance(phone.events[-1], PublishRequested)
    phone.server.allow()
    # On the stream's own number, with level "status"; otherwise it gives up after three seconds.
    assert phone.status(1) == ["NetStream.Publish.Start"]
    facts = EcmaArray({"duration": 0.0, "width": 160.0, "height": 90.0})
    phone.send(8, MessageType.DATA, amf0.encode("@setDataFrame", "onMetaData", facts), stream=1)
    assert phone.server.publishing
    for kind, stamp, body in bodies("libx265", "libopus"):
        phone.send(5 if kind == VIDEO else 4, kind, body, stamp=stamp, stream=1)
    codecs = [event.track.codec for event in phone.events if isinstance(event, TrackFound)]
    assert codecs == [VideoCodec.HEVC, AudioCodec.OPUS]
    if with_fc_publish:
        phone.command(3, "FCUnpublish", 5.0, None, NAME)
        phone.command(3, "deleteStream", 6.0, None, 1.0)
        phone.result(5.0)
    else:
        phone.command(3, "closeStream", 0.0, None, stream=1)
        assert phone.status(1)[1:] == ["NetStream.Unpublish.Success"]
    assert phone.events[-1] == Goodbye()
    assert sum(event == Goodbye() for event in phone.events) == 1


def android_connect(encoding: float, *codecs: Amf) -> dict[str, Amf]:
    listed: dict[str, Amf] = {"fourCcList": list(codecs)} if codecs else {}
    return {
        "app": "live",
        "flashVer": "FMLE/3.0 (compatible; Lavf57.56.101)",
        "tcUrl": URL,
        **listed,
        "objectEncoding": encoding,
    }


@pytest.mark.parametrize(
    ("picture", "sound", "codecs"),
    [
        pytest.param("libx264", "aac", (), id="H.264 and AAC"),
        pytest.param("libx265", "libopus", ("hvc1", "Opus"), id="H.265 and Opus"),
        pytest.param("libsvtav1", "aac", ("av01",), id="AV1 and AAC"),
    ],
)
@pytest.mark.parametrize("size", [128, 4096])
def test_rootencoder_publishes_and_ends(
    picture: str, sound: str, codecs: tuple[str, ...], size: int
) -> None:
    phone = ScriptedClient()
    if size != 128:
        phone.chunk_size(size)  # before connect, where it was given another one
    phone.command(3, "connect", 1.0, android_connect(0.0, *codecs))
    phone.result(1.0)
    # It answers SetPeerBandwidth with a window.
    phone.send(2, MessageType.WINDOW_SIZE, (2_500_000).to_bytes(4, "big"))
    phone.command(5, "releaseStream", 2.0, None, NAME)
    phone.command(5, "FCPublish", 3.0, None, NAME)
    phone.command(3, "createStream", 4.0, None)
    assert phone.result(4.0) == [1.0]
    phone.command(5, "publish", 5.0, None, NAME, "live", stream=1)
    phone.server.allow()
    assert phone.status(1) == ["NetStream.Publish.Start"]
    facts = EcmaArray({"duration": 0.0, "width": 160.0, "stereo": True, "filesize": 0.0})
    phone.send(3, MessageType.DATA, amf0.encode("@setDataFrame", "onMetaData", facts), stream=1)
    for kind, stamp, body in bodies(picture, sound):
        phone.send(6 if kind == VIDEO else 7, kind, body, stamp=stamp, stream=1)
    assert sum(isinstance(event, TrackFound) for event in phone.events) == 2
    phone.command(5, "closeStream", 6.0, None, stream=1)
    assert phone.events[-1] == Goodbye()
    # Any `_error` would end it; one about authentication would make it try another way.
    assert "_error" not in [values[0] for _, values in phone.answered()]


def amf3_text(text: str) -> bytes:
    return b"\x11\x06" + bytes((len(text) << 1 | 1,)) + text.encode()


def test_rootencoder_publishes_with_amf3() -> None:
    def encoded(name: str, transaction: float, *values: bytes) -> bytes:
        return b"\0" + amf0.encode(name, transaction) + b"".join(values)

    null = b"\x11\x01"
    phone = ScriptedClient()
    phone.command(3, "connect", 1.0, android_connect(3.0))
    phone.result(1.0)
    phone.send(5, COMMAND_AMF3, encoded("releaseStream", 2.0, null, amf3_text(NAME)))
    phone.send(5, COMMAND_AMF3, encoded("FCPublish", 3.0, null, amf3_text(NAME)))
    phone.send(3, COMMAND_AMF3, encoded("createStream", 4.0, null))
    assert phone.result(4.0) == [1.0]
    body = encoded("publish", 5.0, null, amf3_text(NAME), amf3_text("live"))
    phone.send(5, COMMAND_AMF3, body, stream=1)
    assert [type(event) for event in phone.events] == [Connected, PublishRequested]
    request = phone.events[1]
    assert isinstance(request, PublishRequested)
    assert (request.application, request.name) == ("live", NAME)
    phone.server.allow()
    assert phone.status(1) == ["NetStream.Publish.Start"]
    phone.send(5, COMMAND_AMF3, encoded("closeStream", 6.0, null), stream=1)
    assert phone.events[-1] == Goodbye()


def test_closing_a_stream_that_was_never_published_gets_no_answer() -> None:
    phone = ScriptedClient()
    phone.command(3, "connect", 1.0, haishinkit_connect())
    phone.command(3, "createStream", 2.0, None)
    phone.command(3, "closeStream", 0.0, None, stream=1)
    phone.command(3, "closeStream", 0.0, None)
    assert phone.status(1) == phone.status(0) == []
