/**
 * How far behind the live edge a viewer plays, decided from facts alone.
 *
 * It begins at the distance that the playlist asks for (PART-HOLD-BACK, RFC 8216bis, 4.4.3.8), with
 * a jump if loading took so long that the edge has moved on. Each stall adds half a second, each
 * minute without one takes half a second back; who stalls again after that waits longer for the next
 * attempt. The way there is a speed that nobody hears, not a jump.
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

/** Stalls at low latency add up to this distance and not beyond. */
export const FURTHEST = 6;

/** The same at normal latency. */
export const FURTHEST_NORMAL = 12;

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

/** Further behind than this at the start, it goes to its distance at once: 12 s of catching up. */
export const LATE = 0.5;

/**
 * So long it waits for the media of that place. After that, media that are more than twice as late
 * are skipped unseen: the newest ones are loaded sooner than all that lie between.
 */
export const BEGINNING = 1_000;

/** Owns the distance of one run. */
export class Latency {
  #base: number | null = null;
  #extra = 0;
  #calm = CALM;
  #since = 0; // the last stall or step
  #nearer = Number.NEGATIVE_INFINITY; // the last step towards the edge
  #rate = 1;
  #began: number | null = null;
  #placed = false;

  /** `furthest`: stalls add up to this distance and not beyond. */
  constructor(private readonly furthest = FURTHEST) {}

  /** The distance to keep; null while the playlist has not named one. */
  get target(): number | null {
    if (this.#base === null) return null;
    return Math.max(this.#base, Math.min(this.#base + this.#extra, this.furthest));
  }

  /** Take what the playlist asks for. */
  ask(partHoldBack: number): void {
    this.#base = partHoldBack;
  }

  /** The run is opened: what follows is the start of playback. */
  open(): void {
    this.#began = null;
    this.#placed = false;
  }

  /** The picture had to wait for media. */
  stalled(now: number): void {
    if (now - this.#nearer < CALM) this.#calm = Math.min(2 * this.#calm, CALMEST);
    if (this.#base !== null && this.#base + this.#extra < this.furthest) this.#extra += STEP;
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
    const off = behind - target;
    if (!following) this.#rate = 1;
    else this.#rate = rateFor(this.#rate, off, ahead);
    return { target, rate: this.#rate, jump: following && (off > JUMP || this.#begins(now, off, ahead)) };
  }

  /** Whether to go to the distance once because playback begins too far behind it. */
  #begins(now: number, off: number, ahead: number): boolean {
    if (this.#placed) return false;
    this.#began ??= now;
    const buffered = ahead > off + SPARE;
    this.#placed = (buffered && off > LATE) || now - this.#began >= BEGINNING;
    return this.#placed && off > (buffered ? LATE : 2 * LATE);
  }
}

/** Once it plays faster or slower it does so until it is almost there, so it does not flutter. */
function rateFor(rate: number, off: number, ahead: number): number {
  const edge = rate === 1 ? START : STOP;
  if (off > edge && rate >= 1) return ahead > SPARE ? FASTER : 1;
  if (off < -edge && rate <= 1) return SLOWER;
  return 1;
}
