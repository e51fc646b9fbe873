/** What a viewer chose, kept by the browser for the next time. Where it keeps nothing, all is as new. */

/** A viewer's choices; absent: never made. */
export interface Choices {
  volume?: number; // 0 to 1
  muted?: boolean;
  speed?: number;
  subtitles?: string; // a language, or "" for none
  latency?: "low" | "normal";
}

const NAME = "headend.player";

/** Speeds to choose from. */
export const SPEEDS: readonly number[] = [0.5, 0.75, 1, 1.25, 1.5, 1.75, 2];

/** Keeps choices in a store that may be closed to us, as in a frame of another site. */
export class Memory {
  // A function, since asking for `localStorage` already throws where it is closed.
  constructor(private readonly store: () => Storage) {}

  /** Return what was kept and is still valid. */
  read(): Choices {
    try {
      return valid(JSON.parse(this.store().getItem(NAME) ?? "{}"));
    } catch {
      return {};
    }
  }

  /** Keep these choices beside those of before. */
  keep(change: Choices): void {
    try {
      this.store().setItem(NAME, JSON.stringify({ ...this.read(), ...change }));
    } catch {
      // Closed or full: the choice holds for this page.
    }
  }
}

function valid(found: unknown): Choices {
  const { volume, muted, speed, subtitles, latency } = Object(found) as Record<string, unknown>;
  const choices: Choices = {};
  if (typeof volume === "number" && volume >= 0 && volume <= 1) choices.volume = volume;
  if (typeof muted === "boolean") choices.muted = muted;
  if (typeof speed === "number" && SPEEDS.includes(speed)) choices.speed = speed;
  if (typeof subtitles === "string") choices.subtitles = subtitles;
  if (latency === "low" || latency === "normal") choices.latency = latency;
  return choices;
}
