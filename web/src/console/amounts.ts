/** Writes sizes and times as people read them. */

import { VIDEO_WORDS } from "./video_words";

const UNITS = ["B", "kB", "MB", "GB", "TB"] as const;
const STEP = 1000;

/** Write a size in bytes, in powers of 1000, as the pages do: `1.4 GB`. */
export function bytesText(size: number): string {
  let value = size;
  let unit: string = UNITS[0];
  for (unit of UNITS) {
    if (value < STEP) break;
    if (unit !== UNITS.at(-1)) value /= STEP;
  }
  return unit === "B" ? `${size} B` : `${value.toFixed(1)} ${unit}`;
}

/** Write how long something still takes: the longer, the less exactly. */
export function leftText(seconds: number | null): string {
  if (seconds === null || !Number.isFinite(seconds)) return "";
  if (seconds < 90) return VIDEO_WORDS.secondsLeft(Math.max(1, Math.round(seconds)));
  if (seconds < 5400) return VIDEO_WORDS.minutesLeft(Math.round(seconds / 60));
  return VIDEO_WORDS.hoursLeft(Math.round(seconds / 3600));
}
