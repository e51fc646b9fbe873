/** What an encoder sends, as a person reads it: a few short texts, and a verdict. */

import { apartOf, surenessOf } from "./apart";
import type { Slot } from "./ingest";
import { clock } from "./times";
import { STREAM_WORDS as WORDS } from "./words";

/** Over how many of the last seconds rates are averaged: one keyframe interval and more. */
const AVERAGED = 5;
/** Encoders send at least every 100 ms. */
const SILENT_SECONDS = 1;

/** The texts by the names of the page's elements (`data-figure`). */
export type Figures = Readonly<
  Record<
    "rate" | "frames" | "keyframes" | "picture" | "sound" | "connected" | "apart" | "sure",
    string
  >
>;

export interface Verdict {
  readonly tone: "good" | "warn" | "bad";
  readonly text: string;
}

/** Return the figures of one of the encoders of a stream. */
export function figuresOf(slot: Slot, slots: readonly Slot[] = [slot]): Figures {
  const { video, audio, seconds, connected_seconds } = slot;
  const keyframes = seconds.keyframe_seconds.at(-1) ?? null;
  const rate = mean(seconds.bit_rates);
  const frames = mean(seconds.frames);
  return {
    rate: rate === null ? WORDS.unknown : `${(rate / 1e6).toFixed(rate < 1e6 ? 2 : 1)} Mbit/s`,
    frames: frames === null || !video ? WORDS.unknown : `${trimmed(frames)} ${WORDS.perSecond}`,
    keyframes: keyframes === null ? WORDS.unknown : `${WORDS.every} ${trimmed(keyframes)} s`,
    picture: video
      ? `${video.width}×${video.height} ${video.codec}${video.profile ? ` ${video.profile}` : ""}`
      : WORDS.none,
    sound: audio
      ? `${audio.codec} ${trimmed(audio.rate / 1000)} kHz, ${channels(audio.channels)}`
      : WORDS.none,
    connected: clock(connected_seconds),
    apart: apartOf(slot, slots),
    sure: surenessOf(slot),
  };
}

/** Return one line on how an encoder is. */
export function verdictOf({ network, advice, seconds, faults }: Slot): Verdict {
  if (network.silent_seconds >= SILENT_SECONDS)
    return { tone: "bad", text: `${WORDS.nothingFor} ${network.silent_seconds.toFixed(0)} s` };
  const alone = shownAs("fault", faults, WORDS.unlikeOthers);
  if (alone) return { tone: "bad", text: alone };
  if (advice.length) return { tone: "warn", text: WORDS.advice };
  if (seconds.bit_rates.length < AVERAGED) return { tone: "warn", text: WORDS.measuring };
  return { tone: "good", text: WORDS.well };
}

/** Return what an encoder shows that may be no fault: all show it, or the others are not known. */
export function remarkOf({ faults }: Slot): string {
  const found = [
    shownAs("both", faults, WORDS.likeOthers),
    shownAs("unknown", faults, WORDS.unsure),
  ];
  return found.filter(Boolean).map((each) => `${each}.`).join(" ");
}

function shownAs(verdict: string, faults: Slot["faults"], how: string): string {
  const shown = faults.filter((each) => each.verdict === verdict);
  if (!shown.length) return "";
  const text = shown.map(({ kind }) => WORDS.faults[kind]).join(WORDS.and);
  return `${text.charAt(0).toUpperCase()}${text.slice(1)}, ${how}`;
}

function mean(values: readonly number[]): number | null {
  const last = values.slice(-AVERAGED);
  return last.length ? last.reduce((sum, each) => sum + each, 0) / last.length : null;
}

function trimmed(value: number): string {
  return value.toFixed(1).replace(/\.0$/, "");
}

function channels(count: number): string {
  if (count === 1) return WORDS.mono;
  return count === 2 ? WORDS.stereo : `${count} ${WORDS.channels}`;
}
