/**
 * How far behind the live edge a low-latency viewer plays, decided from facts alone.
 *
 * It begins at the distance that the playlist asks for (PART-HOLD-BACK, RFC 8216bis, 4.4.3.8). Each
 * stall adds half a second, each minute without one takes half a second back; who stalls again after
 * that waits longer for the next attempt. The way there is a speed that nobody hears, not a jump.
 *
 * Distances and buffers are in seconds, moments in milliseconds of one clock.
 */

/** Facts of a moment. `following`: the viewer wants the live edge and has not gone back. */
export interface Moment {
  now: number;
  behind: number; // from the position to the newest media
  ahead: number; // what is buffered from the position on
  following: boolean;
}

/** What to do: the distance to keep, the speed, and whether to go to that distance at once. */
export interface Course {
  target: number;
  rate: number;
  jump: boolean;
}

/** Added by each stall. */
export const STEP = 0.5;

/** Stalls add up to this distance and not beyond: hls.js keeps it without parts, too. */
export const FURTHEST = 6;

/** Without a stall for so long, the distance shrinks by a step. */
export const CALM = 60_000;

// Eight minutes: a viewer whose network cannot bear less stalls about once in ten minutes at most.
const CALMEST = 8 * CALM;

/** 4 % faster or slower, with the pitch kept, is not noticed. */
export const FASTER = 1.04;
export const SLOWER = 0.97;

// The distance is measured with an error of about 0.1 s, as parts come in steps.
const START = 0.3;
const STOP = 0.1;

// With less in the buffer, playing faster would end in a stall.
const SPARE = 0.4;

/** Further behind than this, catching up would take more than ten minutes. */
export const JUMP = 24;

/** Owns the distance of one run. */
export class Latency {
  #base: number | null = null;
  #extra = 0;
  #calm = CALM;
  #since = 0; // the last stall or step
  #nearer = Number.NEGATIVE_INFINITY; // the last step towards the edge
  #rate = 1;

  /** The distance to keep; null while the playlist has not named one. */
  get target(): number | null {
    if (this.#base === null) return null;
    return Math.max(this.#base, Math.min(this.#base + this.#extra, FURTHEST));
  }

  /** Take what the playlist asks for. */
  ask(partHoldBack: number): void {
    this.#base = partHoldBack;
  }

  /** The picture had to wait for media. */
  stalled(now: number): void {
    if (now - this.#nearer < CALM) this.#calm = Math.min(2 * this.#calm, CALMEST);
    if (this.#base !== null && this.#base + this.#extra < FURTHEST) this.#extra += STEP;
    this.#since = now;
    this.#rate = 1;
  }

  /** Decide what to do at this moment. */
  steer({ now, behind, ahead, following }: Moment): Course {
    if (this.#extra > 0 && now - this.#since >= this.#calm) {
      this.#extra = Math.max(0, this.#extra - STEP);
      this.#since = this.#nearer = now;
    }
    const target = this.target ?? behind;
    if (!following) this.#rate = 1;
    else this.#rate = rateFor(this.#rate, behind - target, ahead);
    return { target, rate: this.#rate, jump: following && behind - target > JUMP };
  }
}

/** Once it plays faster or slower it does so until it is almost there, so it does not flutter. */
function rateFor(rate: number, off: number, ahead: number): number {
  const edge = rate === 1 ? START : STOP;
  if (off > edge && rate >= 1) return ahead > SPARE ? FASTER : 1;
  if (off < -edge && rate <= 1) return SLOWER;
  return 1;
}
