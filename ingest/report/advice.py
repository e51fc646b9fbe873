"""Advice for an encoder's owner: sentences that name a problem and the setting that solves it.

Pure. An encoder with the recommended settings, on a sufficient network, gets no advice.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Final, TypeVar

from media.encoder_report import (
    ClockReport,
    EncoderReport,
    KeyframeReport,
    NetworkReport,
    PictureReport,
    SoundReport,
)
from media.ladder import MOST_SOURCE_RATE, box_of, ladder_for
from media.stream_keys import Slot

# From here on segments are cut without the source's keyframes
# (`transcode.engine.output.segment_grid`), so its packets can no longer be copied.
_LONG_INTERVAL: Final = 4.0  # seconds
_GOOD_INTERVAL: Final = 2.5
_MOST_B_FRAMES: Final = 2
_MOST_RATE: Final = 60.5  # frames a second; encoded renditions get fewer
# Averages over less time than this are meaningless.
_SETTLED_SECONDS: Final = 10.0
_MISSING: Final = 0.02  # of all frames: one in fifty is visible as stutter
_RATE_SHORT: Final = 0.95  # of the announced frame rate
_HALF: Final = (0.48, 0.52)  # of it: the encoder counted fields, which is no fault
_MOST_SWING: Final = 3  # times the average, in one second; a keyframe alone makes that 1.5
_JITTER_MS: Final = 500  # what a player two segments behind can absorb
_CALM_MS: Final = 200  # with more, drift cannot be measured
_SILENCE_SECONDS: Final = 1.0  # encoders send at least every 100 ms
_DRIFT_PPM: Final = 200  # quartzes keep within 100
_DRIFT_SECONDS: Final = 120.0
_INTERLEAVE_MS: Final = 1000
_STEREO: Final = 2
_RATE_TOLERANCE: Final = 0.02  # 29.97 and 30 are equal, dropped frames add some

Report = TypeVar("Report")


def advice(
    report: EncoderReport, active: frozenset[str], *, picture_is_due: bool = False
) -> list[str]:
    """Return advice for one encoder; `active` are the labels of the enabled resolutions.

    `picture_is_due`: it announced a picture that has not come.
    """
    network = report.network
    settled = network.measured_seconds >= _SETTLED_SECONDS
    sentences: list[str] = []
    if report.video is not None:
        sentences += _apply(_PICTURE, report.video)
        sentences += _resolution(report.video, active)
        if settled:
            sentences += _apply(_PICTURE_SETTLED, report.video)
    if report.audio is not None:
        sentences += _apply(_SOUND, report.audio)
    elif report.video is not None and settled:
        sentences.append(
            "No audio is sent: select an audio source if the stream should have sound."
        )
    if picture_is_due and report.audio is not None:
        sentences.append(
            "The encoder announces a picture and sends only sound: check its video source, or the"
            " source of the relay."
        )
    sentences += _apply(_NETWORK, network)
    sentences += _apply(_CLOCK, report.clock)
    if (network.jitter_ms or 0) <= _CALM_MS:
        sentences += _drift(report.clock)
    return sentences


def _apply(rules: tuple[Callable[[Report], str | None], ...], facts: Report) -> list[str]:
    return [sentence for rule in rules if (sentence := rule(facts)) is not None]


# -- picture --------------------------------------------------------------------------------------


def _keyframe_interval(picture: PictureReport) -> str | None:
    facts = picture.keyframes
    longest = max(facts.max_seconds or 0.0, facts.since_seconds)
    if longest <= _GOOD_INTERVAL:
        return _irregular(facts)
    if not facts.intervals:
        # The next may be about to arrive.
        late = longest > _LONG_INTERVAL
        return f"No keyframe came for {longest:.1f} s: set an interval of 2 s." if late else None
    least = facts.min_seconds or 0.0
    about = f"{longest:.3g} s" if facts.fixed is not False else f"{least:.2g} to {longest:.3g} s"
    reason = "viewers join and resolutions switch at keyframes"
    if longest > _LONG_INTERVAL:
        reason = "above 4 s the picture is encoded anew in its own size too"
    return f"The keyframe interval is {about}: set 2 s ({reason})."


def _irregular(facts: KeyframeReport) -> str | None:
    if facts.fixed is not False or facts.min_seconds is None or facts.max_seconds is None:
        return None
    return (
        f"Keyframes come irregularly, {facts.min_seconds:.2g} to {facts.max_seconds:.3g} s apart:"
        " set a fixed interval of 2 s, without keyframes at scene cuts."
    )


def _b_frames(picture: PictureReport) -> str | None:
    count = picture.b_frames or 0
    if count <= _MOST_B_FRAMES:
        return None
    return f"There are {count} B-frames in a row: set 2 or fewer, as each delays the stream."


def _open_gop(picture: PictureReport) -> str | None:
    if not picture.open_gop:
        return None
    return (
        "Pictures reach back over keyframes (open GOP): set closed GOPs, so that every keyframe"
        " is one at which viewers can begin."
    )


def _codec(picture: PictureReport) -> str | None:
    if picture.plays_everywhere:
        return None
    form = picture.codec
    if form == "H.264":
        form = f"H.264 {picture.profile or 'of this profile'}, as it is sent,"
        remedy = "set profile high or main, 8 bit 4:2:0, progressive"
    else:
        remedy = "set H.264 if the server is overloaded"
    return (
        f"{form} does not play everywhere, so it is also encoded in its own size, which takes"
        f" processor time: {remedy}."
    )


def _size(picture: PictureReport) -> str | None:
    if not (picture.width % 2 or picture.height % 2):
        return None
    return (
        f"The picture is {picture.width}x{picture.height}, an odd size, so it is encoded anew:"
        " set an even width and height."
    )


def _frame_rate(picture: PictureReport) -> str | None:
    rate = picture.frame_rate or 0.0
    if rate <= _MOST_RATE:
        return None
    return (
        f"The encoder sends {rate:.4g} frames/s: set 60 or 30, as higher rates cost more and look"
        " no better."
    )


def _resolution(picture: PictureReport, active: frozenset[str]) -> Iterator[str]:
    box = box_of(picture.width, picture.height)
    largest = ladder_for(picture.width, picture.height, active).renditions[0]
    if box.label not in active and largest.name != box.label:
        yield (
            f"The picture is {picture.width}x{picture.height}, but {box.label} is not switched on"
            f" for this stream: switch it on, or send {largest.name}, which is what viewers get."
        )


def _frames(picture: PictureReport) -> str | None:
    rate, announced = picture.frame_rate, picture.announced_frame_rate
    if rate is None:
        return None
    if picture.frame_rate_varies:
        return "Frames come at odd times (variable frame rate): set a constant frame rate."
    missing = picture.frames_missing / (picture.frames + picture.frames_missing)
    if missing > _MISSING:
        return (
            f"{100 * missing:.0f} % of the frames are missing ({rate:.3g} frames/s come): the"
            " encoder leaves them out; give it less work, or set a constant frame rate."
        )
    share = rate / announced if announced else 1.0
    if share < _RATE_SHORT and not _HALF[0] <= share <= _HALF[1]:
        return (
            f"The encoder announces {announced:.4g} frames/s and sends {rate:.4g}: set the frame"
            " rate that its source has."
        )
    return None


def _bit_rate(picture: PictureReport) -> str | None:
    rate, box = picture.bit_rate or 0, box_of(picture.width, picture.height)
    if rate <= MOST_SOURCE_RATE * box.rate:
        return None
    return (
        f"The picture takes {_mega(rate)} Mbit/s: {_mega(box.rate)} are enough for {box.label},"
        " and viewers must be able to receive it."
    )


def _swing(picture: PictureReport) -> str | None:
    mean, peak = picture.bit_rate or 0, picture.peak_bit_rate or 0
    # A still picture needs almost no bits; a peak when it moves is no fault.
    if peak <= _MOST_SWING * mean or peak <= box_of(picture.width, picture.height).rate:
        return None
    return (
        f"The bit rate swings: {_mega(mean)} Mbit/s on average, {_mega(peak)} in one second:"
        " set a constant bit rate (CBR)."
    )


_PICTURE: Final = (_keyframe_interval, _b_frames, _open_gop, _codec, _size, _frame_rate)
_PICTURE_SETTLED: Final = (_frames, _bit_rate, _swing)


# -- sound, network, clock ------------------------------------------------------------------------


def _channels(sound: SoundReport) -> str | None:
    if sound.channels <= _STEREO:
        return None
    return f"The sound has {sound.channels} channels and viewers get stereo: send stereo."


def _silence(network: NetworkReport) -> str | None:
    if network.silent_seconds >= _SILENCE_SECONDS:
        return (
            f"Nothing has come for {network.silent_seconds:.1f} s: check that the encoder is"
            " running and its network works."
        )
    if network.longest_silence_seconds >= _SILENCE_SECONDS:
        return (
            f"Nothing came for {network.longest_silence_seconds:.1f} s within the last minute:"
            " use a cable, or lower the bit rate."
        )
    return None


def _jitter(network: NetworkReport) -> str | None:
    if (network.jitter_ms or 0) <= _JITTER_MS:
        return None
    return (
        f"Packets come up to {network.jitter_ms} ms early or late: the network is unsteady; use a"
        " cable, or lower the bit rate."
    )


def _jumps(clock: ClockReport) -> str | None:
    if not clock.jumps:
        return None
    times = "once" if clock.jumps == 1 else f"{clock.jumps} times"
    return (
        f"The timestamps jumped {times} within ten minutes: restart the encoder, or stop its source"
        " from looping."
    )


def _steps_back(clock: ClockReport) -> str | None:
    if not clock.steps_back:
        return None
    times = "once" if clock.steps_back == 1 else f"{clock.steps_back} times"
    return f"The timestamps went back {times} within the last minute: restart the encoder."


def _interleave(clock: ClockReport) -> str | None:
    apart = clock.interleave_ms or 0
    if apart <= _INTERLEAVE_MS:
        return None
    return (
        f"Sound and picture come {apart / 1000:.1f} s apart: look at the encoder's audio delay"
        " (sync offset)."
    )


def _drift(clock: ClockReport) -> Iterator[str]:
    ppm = clock.drift_ppm
    if ppm is not None and abs(ppm) > _DRIFT_PPM and clock.drift_seconds >= _DRIFT_SECONDS:
        way = "fast" if ppm > 0 else "slow"
        yield (
            f"The encoder's clock is {abs(ppm)} ppm {way} ({abs(ppm) * 0.06:.0f} ms a minute):"
            " synchronise its time (NTP), and take sound and picture from one device."
        )


_SOUND: Final = (_channels,)
_NETWORK: Final = (_silence, _jitter)
_CLOCK: Final = (_jumps, _steps_back, _interleave)


# -- several encoders -----------------------------------------------------------------------------


def compare_encoders(reports: Mapping[Slot, EncoderReport]) -> list[str]:
    """Return advice that makes a switch from one encoder to another invisible.

    One that has sent nothing yet is not compared.
    """
    slots = sorted(slot for slot, each in reports.items() if each.video or each.audio)
    return [
        sentence
        for slot in slots[1:]
        for sentence in _encoder_differences(slots[0], reports[slots[0]], slot, reports[slot])
    ]


def _encoder_differences(
    slot: Slot, report: EncoderReport, other_slot: Slot, other_report: EncoderReport
) -> Iterator[str]:
    of_pictures = [*_picture_differences(report.video, other_report.video)]
    differences = [*of_pictures, *_sound_differences(report.audio, other_report.audio)]
    if not differences:
        return
    if _has_seam(report.video, other_report.video):
        effect = "shows a discontinuity"
    else:  # sound is encoded
        effect = "may show a discontinuity" if of_pictures else "may be heard"
    name = str(slot).capitalize()
    yield (
        f"{name} and {other_slot} have different settings ({', '.join(differences)}): a switch"
        f" between them {effect}; set both alike."
    )


def _has_seam(picture: PictureReport | None, other: PictureReport | None) -> bool:
    """Return whether one cannot be encoded on where the other ends."""
    if picture is None or other is None:
        return picture is not other
    kind = (other.codec, other.width, other.height)
    return (picture.codec, picture.width, picture.height) != kind


def _picture_differences(
    picture: PictureReport | None, other: PictureReport | None
) -> Iterator[str]:
    if picture is None or other is None:
        if picture is not other:
            yield "one sends no picture"
        return
    if picture.codec != other.codec:
        yield f"{picture.codec} and {other.codec}"
    if (picture.width, picture.height) != (other.width, other.height):
        yield f"{picture.width}x{picture.height} and {other.width}x{other.height}"
    if _rates_differ(picture.frame_rate, other.frame_rate):
        yield f"{picture.frame_rate:.4g} and {other.frame_rate:.4g} frames/s"
    if picture.codec == other.codec and picture.profile != other.profile:
        yield f"profile {picture.profile or 'unknown'} and {other.profile or 'unknown'}"


def _rates_differ(rate: float | None, other: float | None) -> bool:
    if rate is None or other is None:
        return False
    return abs(rate - other) > _RATE_TOLERANCE * max(rate, other)


def _sound_differences(sound: SoundReport | None, other: SoundReport | None) -> Iterator[str]:
    if sound is None or other is None:
        if sound is not other:
            yield "one sends no sound"
        return
    if sound.codec != other.codec:
        yield f"{sound.codec} and {other.codec}"
    if sound.rate != other.rate:
        yield f"sound at {sound.rate} and {other.rate} Hz"
    if sound.channels != other.channels:
        yield f"{sound.channels} and {other.channels} channels"


def _mega(rate: int) -> str:
    return f"{rate / 1e6:.1f}"
