/**
 * What encoders sent in the last minutes, joined from reports that overlap: one value a second.
 *
 * Memory is bounded: older seconds are dropped. Times are seconds of the browser's clock.
 */

import type { Slot } from "./ingest";
import { numberOf } from "./slots";

/** How many seconds are kept and shown. */
export const KEPT = 300;

// So much is shown at least: a line of some seconds in an empty chart says little.
const LEAST_SECONDS = 60;

// Answers take a while to arrive; more than this is another clock: another process measures now.
const OTHER_CLOCK = 3;

// How far encoders are apart is said once a report; reports come every 2 s, a late one after more.
const HELD = 5;

/** `behind_ms` is in no report's seconds: it is kept since the page was opened. */
export type Quantity = "bit_rates" | "frames" | "keyframe_seconds" | "behind_ms";

type Sample = Readonly<Record<Quantity, number | null>>;

/** Columns for a chart: times, then one column of values for each slot; null is a gap. */
export interface Series {
  readonly times: number[];
  readonly slots: string[];
  readonly values: (number | null)[][];
}

export class History {
  private readonly samples = new Map<string, Map<number, Sample>>();
  private newest = 0;
  /** The time of the browser's clock at which the encoders' second 0 ended. */
  private origin: number | null = null;

  /** The slots of which anything is kept, in order. */
  get slots(): string[] {
    return [...this.samples.keys()].sort(bySlot);
  }

  /** How many values are kept. */
  get size(): number {
    return [...this.samples.values()].reduce((sum, kept) => sum + kept.size, 0);
  }

  /** Add what a report has of all slots; `now` is when it arrived. */
  add(slots: readonly Slot[], now: number): void {
    for (const slot of slots) if (slot.seconds.bit_rates.length) this.join(slot, now);
    this.drop();
  }

  private join({ slot, seconds, alignment }: Slot, now: number): void {
    const origin = now - seconds.newest;
    if (this.origin === null || Math.abs(origin - this.origin) > OTHER_CLOCK) {
      this.samples.clear();
      this.origin = origin;
      this.newest = seconds.newest;
    }
    this.newest = Math.max(this.newest, seconds.newest);
    const kept = this.samples.get(slot) ?? new Map<number, Sample>();
    this.samples.set(slot, kept);
    const first = seconds.newest - seconds.bit_rates.length + 1;
    // What is said of the distance counts for the seconds since the report before.
    const before = [...kept.keys()].at(-1) ?? -Infinity;
    const since = seconds.newest - before <= HELD ? before : seconds.newest - 1;
    seconds.bit_rates.forEach((rate, place) => {
      const second = first + place;
      kept.set(second, {
        bit_rates: rate,
        frames: seconds.frames[place] ?? null,
        keyframe_seconds: seconds.keyframe_seconds[place] ?? null,
        behind_ms:
          (second > since ? alignment?.behind_ms : kept.get(second)?.behind_ms) ?? null,
      });
    });
  }

  private drop(): void {
    const oldest = this.newest - KEPT;
    for (const [slot, kept] of this.samples) {
      for (const second of kept.keys()) if (second <= oldest) kept.delete(second);
      if (!kept.size) this.samples.delete(slot);
    }
  }

  private has(slot: string, quantity: Quantity): boolean {
    const kept = [...(this.samples.get(slot)?.values() ?? [])];
    return kept.some((sample) => sample[quantity] !== null);
  }

  /** Return the columns of a chart, up to the newest second, of slots that have any value. */
  series(quantity: Quantity): Series {
    const { newest, origin } = this;
    const slots = this.slots.filter((slot) => this.has(slot, quantity));
    const seconds = Array.from({ length: KEPT }, (_, place) => newest - KEPT + 1 + place);
    return {
      times: seconds.map((second) => Math.round(second + (origin ?? 0))),
      slots,
      values: slots.map((slot) => {
        const kept = this.samples.get(slot);
        return seconds.map((second) => kept?.get(second)?.[quantity] ?? null);
      }),
    };
  }
}

/** Return the time at which a chart begins: at the first value, a minute ago at the latest. */
export function beginning({ times, values }: Series): number {
  const first = times.findIndex((_, place) => values.some((column) => column[place] != null));
  const last = times.at(-1) ?? 0;
  return Math.min(times[first] ?? last, last - LEAST_SECONDS);
}

/** The primary first, then the backups by number. */
export function bySlot(one: string, other: string): number {
  return numberOf(one) - numberOf(other);
}
