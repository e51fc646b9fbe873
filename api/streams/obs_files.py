"""A profile of OBS Studio that publishes a stream, in place of settings made by hand.

The profile is a folder with `basic.ini` (output, picture, sound), `service.json` (server and key)
and `streamEncoder.json` (x264), as OBS 27 and later import it (Profile > Import). The encoder is
set as `docs/publish.md` recommends, so that the encoder report has nothing to advise. Pure.
"""

import io
import json
import zipfile
from typing import Final

import msgspec

from media.ladder import Box

DEFAULT_LABEL: Final = "720p"  # software encoding of 1080p is too much for many laptops
_CANVAS: Final = (1920, 1080)  # what scenes are usually laid out on
# Of the ladder's rate: what the encoder may send beyond its rate must reach viewers too.
_SHARE: Final = 0.9
_STEP: Final = 50  # kbit/s
_SOUND: Final = 160  # kbit/s
_ALIGNED: Final = 4  # OBS cuts its output to whole groups of so many columns: 854 to 852
_FOREVER: Final = 10_000  # attempts to connect again: an encoder beside a stage has no operator
# Files in a zip have a time; the earliest possible for all, so that equal profiles are equal files.
_TIME: Final = (1980, 1, 1, 0, 0, 0)
_PRIVATE: Final = 0o600 << 16  # the key is in it


class ObsProfile(msgspec.Struct, frozen=True, kw_only=True):
    """What a profile sets; `server` and `key` are as they are entered in OBS.

    `folder` is the name of the profile's folder, `name` what OBS shows in its menu.
    """

    folder: str
    name: str
    server: str
    key: str
    box: Box

    def __repr__(self) -> str:
        return f"ObsProfile({self.folder!r}, {self.box.label})"

    def files(self) -> dict[str, str]:
        """Return the profile's files: their texts by their names."""
        service = {"server": self.server, "key": self.key, "use_auth": False, "bwtest": False}
        encoder = {
            "rate_control": "CBR",
            "bitrate": bit_rate(self.box),
            "keyint_sec": 2,
            "preset": "veryfast",
            "profile": "high",
            # OBS sets the longest distance of keyframes; scene cuts would add others between.
            "x264opts": "scenecut=0 bframes=2",
        }
        return {
            "basic.ini": self._settings(),
            "service.json": _json({"type": "rtmp_custom", "settings": service}),
            "streamEncoder.json": _json(encoder),
        }

    def zipped(self) -> bytes:
        """Return the folder as a zip file."""
        packed = io.BytesIO()
        with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
            for name, text in self.files().items():
                entry = zipfile.ZipInfo(f"{self.folder}/{name}", _TIME)
                entry.external_attr = _PRIVATE
                entry.compress_type = zipfile.ZIP_DEFLATED
                archive.writestr(entry, text)
        return packed.getvalue()

    def _settings(self) -> str:
        width, height = max((self.box.width, self.box.height), _CANVAS)
        sections = {
            "General": {"Name": _escaped(self.name)},
            "Output": {
                "Mode": "Advanced",
                "Reconnect": "true",
                "RetryDelay": 2,
                "MaxRetries": _FOREVER,
            },
            "AdvOut": {
                "Encoder": "obs_x264",
                "ApplyServiceSettings": "false",
                "TrackIndex": 1,
                "Track1Bitrate": _SOUND,
            },
            "Video": {
                "BaseCX": width,
                "BaseCY": height,
                "OutputCX": self.box.width // _ALIGNED * _ALIGNED,
                "OutputCY": self.box.height,
                "FPSType": 0,
                "FPSCommon": 30,
                "ColorFormat": "NV12",
                "ColorSpace": "709",
                "ColorRange": "Partial",
            },
            "Audio": {"SampleRate": 48000, "ChannelSetup": "Stereo"},
        }
        return "\n".join(
            "".join([f"[{section}]\n", *(f"{key}={value}\n" for key, value in keys.items())])
            for section, keys in sections.items()
        )


def bit_rate(box: Box) -> int:
    """Return the encoder's bit rate for a resolution, in kbit/s."""
    return int(_SHARE * box.rate / 1000) // _STEP * _STEP


def _escaped(text: str) -> str:
    """Return a text as a value of OBS' ini files, which know `\\n`, `\\r` and `\\\\`."""
    return text.replace("\\", "\\\\")


def _json(body: object) -> str:
    return json.dumps(body, ensure_ascii=False, indent=4) + "\n"
