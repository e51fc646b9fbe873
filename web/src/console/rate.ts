/** How fast bytes go, and how long the rest takes: over the last seconds, so that it follows a change. */

const WINDOW_MS = 8000;
// Less than that says nothing: the first bytes fill the buffers of the network.
const LEAST_MS = 1500;

/** Measures one transfer; times are milliseconds of one clock. */
export class Rate {
  #samples: { at: number; bytes: number }[] = [];

  /** Note that so many bytes have gone by now, in all. */
  add(bytes: number, at: number): void {
    this.#samples.push({ at, bytes });
    const oldest = at - WINDOW_MS;
    // One sample before the window stays: the rate is that since then.
    while (this.#samples.length > 2 && (this.#samples[1]?.at ?? at) <= oldest) this.#samples.shift();
  }

  /** Forget what was measured: the transfer was held up, or begins anew. */
  reset(): void {
    this.#samples = [];
  }

  /** Bytes in a second; null while it is not known. */
  get perSecond(): number | null {
    const first = this.#samples[0];
    const last = this.#samples.at(-1);
    if (!first || !last || last.at - first.at < LEAST_MS) return null;
    return ((last.bytes - first.bytes) / (last.at - first.at)) * 1000;
  }

  /** Seconds that so many bytes take; null while it is not known, or nothing goes. */
  secondsFor(bytes: number): number | null {
    const rate = this.perSecond;
    return rate === null || rate <= 0 ? null : bytes / rate;
  }
}
