/**
 * One stream in one video element: waits for a run, plays it, gets over troubles, waits again. Or
 * one video: waits until it can be played.
 */

import { engineFor, type Engine, type Fault } from "./engine";
import { FURTHEST, FURTHEST_NORMAL, Latency } from "./latency";
import { ask, refusal, type Answer } from "./runs";
import { decide, pollAfter, WEDGED, type State } from "./state";

const TICK = 500; // ms between two checks
const KEPT_FAULTS = 50;

// A run that never gets long enough (its encoder stopped early) is played after this time.
const PATIENCE = 15_000; // ms

// The last picture of a run may be slightly before the end in the playlist: audio and video do not
// end at the same time.
const END = 0.5; // seconds

// A viewer this near to where the edge is to be played watches live; further away, the past.
const NEAR = 3; // seconds

/** What is played, and how. */
export interface Manner {
  video: boolean; // has an end and no live edge
  autoplay: boolean; // starts without an action of the viewer
  low: boolean; // as near to the live edge as the playlist allows
}

/** The part of the media that the viewer may choose from, in seconds. */
export interface Span {
  start: number;
  end: number;
}

/** Owns the engine and the state; calls `changed` when the state changes. */
export class Show {
  readonly faults: Fault[] = [];
  engine: Engine | null = null;
  run: string | null = null;
  state: State = "starting";
  stalls = 0; // how often moving pictures had to wait

  #answered = false;
  #refused: "gone" | "blocked" | null = null;
  #waited = false; // the viewer has waited for it
  #touched = false; // it has played before
  #begun = false;
  #held = false; // starts as soon as enough is available
  #over = false;
  #position = 0;
  #moved = performance.now();
  #made = 0;
  #asked = 0;
  #asking = false;
  #askAt: number | null = 0;
  #following = true; // the viewer wants the live edge and has not gone back
  #latency = new Latency();
  #latencyOf: string | null = null; // its run
  readonly #left = new AbortController();

  constructor(
    readonly video: HTMLVideoElement,
    private readonly playlist: string,
    private manner: Manner,
    private readonly changed: () => void,
  ) {}

  /** Start to poll for the stream; everything else follows. */
  start(): void {
    const { video } = this;
    const { signal } = this.#left;
    video.addEventListener("waiting", () => this.#wait(), { signal });
    document.addEventListener("visibilitychange", () => this.#look(), { signal });
    video.addEventListener("playing", () => this.#play(), { signal });
    video.addEventListener("pause", () => (this.#following &&= video.ended), { signal });
    video.addEventListener("timeupdate", () => this.#steer(performance.now()), { signal });
    const timer = setInterval(() => this.#look(), TICK);
    signal.addEventListener("abort", () => clearInterval(timer));
    this.#look();
  }

  /** Stop everything, for good. */
  stop(): void {
    this.#left.abort();
    this.#leave();
  }

  /** Whether it has a live edge now. */
  get live(): boolean {
    return this.edge !== null;
  }

  /** What the viewer may choose from; null while that is not known. */
  get span(): Span | null {
    const { video, edge, engine } = this;
    if (engine === null) return null;
    if (edge !== null) {
      const start = video.seekable.length === 0 ? edge : video.seekable.start(0);
      return start < edge ? { start, end: edge } : null;
    }
    if (!Number.isFinite(video.duration) || video.duration <= 0) return null;
    // An ended run begins where its window was.
    const start = this.manner.video ? 0 : (engine.hls?.latestLevelDetails?.fragmentStart ?? 0);
    return { start: Math.max(0, start), end: video.duration };
  }

  /** Go to a position as the viewer wishes; not beyond what there is. */
  seek(position: number): void {
    const { span, edge } = this;
    if (span === null || !Number.isFinite(position)) return;
    const to = Math.min(Math.max(position, span.start), span.end);
    this.#following = edge !== null && to > edge - NEAR;
    this.video.currentTime = to;
  }

  /** Whether it plays as near to the live edge as the playlist allows. */
  get low(): boolean {
    return this.manner.low;
  }

  /** Play nearer to the live edge, or further from it; the run is loaded anew. */
  setLow(low: boolean): void {
    if (low === this.manner.low) return;
    this.manner = { ...this.manner, low };
    this.#latencyOf = null; // its stalls say nothing about another distance
    if (this.run !== null && !this.#over) this.#begin(this.run);
  }

  #play(): void {
    this.#touched = true;
    this.#look(); // the moment to go nearer to the edge, if loading has taken long
  }

  #wait(): void {
    if (!this.#begun || this.video.seeking || this.engine?.closed !== false) return;
    this.stalls += 1;
    if (this.#following) this.#latency.stalled(performance.now());
  }

  #steer(now: number): void {
    const { engine, video } = this;
    if (engine === null || !this.#begun || this.#held || video.paused || video.seeking) return;
    const behind = engine.behind;
    const target = this.#latency.target;
    if (behind !== null && target !== null && behind < target + NEAR) this.#following = true;
    engine.steer(now, this.#following);
  }

  /** Seconds behind the newest picture that the stream offers; null while nothing plays. */
  get behind(): number | null {
    const edge = this.edge;
    return edge === null ? null : Math.max(0, edge - this.video.currentTime);
  }

  /** The live position; null while there is none. */
  get edge(): number | null {
    if (this.engine === null || this.engine.closed || !this.#begun || this.#held) return null;
    if (this.engine.hls !== null) return this.engine.hls.liveSyncPosition;
    const { seekable } = this.video;
    return seekable.length === 0 ? null : seekable.end(seekable.length - 1);
  }

  /** Go to the live edge and play. */
  goLive(): void {
    const { edge } = this;
    this.#following = true;
    if (edge !== null) this.video.currentTime = edge;
    void this.play();
  }

  /** Play or pause; from the beginning where it is over. */
  toggle(): void {
    if (this.video.paused) void this.play();
    else this.video.pause();
  }

  #look(): void {
    const now = performance.now();
    this.#watch(now);
    this.#steer(now);
    const state = decide({
      answered: this.#answered,
      refused: this.#refused,
      run: this.run,
      over: this.#over,
      begun: this.#begun && !this.#held,
      paused: this.video.paused,
      still: now - this.#moved,
    });
    if (state !== this.state) {
      this.state = state;
      this.#asked = 0;
      this.#askAt = this.#next(now);
      this.changed();
    }
    // A failed engine plays out its buffer; after that it should continue.
    if (this.engine?.broken === true) this.#askAt ??= this.#next(now);
    if (this.#askAt !== null && now >= this.#askAt) void this.#ask();
  }

  #watch(now: number): void {
    const { video, engine } = this;
    if (engine === null) return;
    const late = engine.late && !this.manner.video;
    if (video.readyState >= HTMLMediaElement.HAVE_CURRENT_DATA && !late) this.#begun = true;
    const moved = video.currentTime !== this.#position;
    this.#position = video.currentTime;
    if (moved || (video.paused && this.#begun)) this.#moved = now;
    if (this.#held && !late && (engine.ready || now - this.#made > PATIENCE)) this.#release();
    if (this.manner.video) return; // the end of a video is not followed by another run
    if (late && !this.#over) this.#arriveLate();
    const atEnd = engine.closed && this.#begun && video.currentTime >= video.duration - END;
    if (video.ended || (atEnd && now - this.#moved > 2 * TICK)) this.#over = true;
  }

  /** The run was over before the page loaded: its last seconds may be played manually. */
  #arriveLate(): void {
    this.#over = true;
    this.#held = false;
    this.video.autoplay = false;
    this.video.pause();
  }

  async #ask(): Promise<void> {
    if (this.#asking) return;
    this.#asking = true;
    this.#askAt = null;
    try {
      await this.#take(await ask(this.playlist));
    } finally {
      this.#asking = false;
      this.#asked += 1;
      this.#askAt = this.#next(performance.now());
    }
  }

  #next(now: number): number | null {
    const trouble = this.engine?.broken === true;
    const pause = pollAfter(this.state, trouble, this.#asked, Math.random());
    return pause === null ? null : now + pause;
  }

  async #take(answer: Answer): Promise<void> {
    this.#answered = true;
    switch (answer.kind) {
      case "run":
        this.#refused = null;
        if (answer.run !== this.run) this.#begin(answer.run);
        else if (!this.#over) this.#mend(answer.run);
        break;
      case "absent":
        // The page tells them apart: unpublished by the owner, or nothing to play yet.
        this.#refused = await refusal(location.pathname);
        this.#waited = true;
        this.#leave();
        break;
      case "unreachable":
        break;
    }
    this.#look();
  }

  #mend(run: string): void {
    const now = performance.now();
    if (now - this.#moved > WEDGED && now - this.#made > WEDGED) this.#begin(run);
    else this.engine?.mend();
  }

  #begin(run: string): void {
    this.#leave();
    this.run = run;
    this.#moved = this.#made = performance.now();
    // After waiting or an outage it plays by itself; otherwise as the owner configured.
    const plays = this.manner.autoplay || this.#waited || this.#touched;
    this.video.autoplay = false;
    this.#held = plays;
    const report = (fault: Fault): void => {
      this.faults.push(fault);
      if (this.faults.length > KEPT_FAULTS) this.faults.shift();
    };
    const { low, video } = this.manner;
    // What a run's stalls have taught outlives its engine.
    if (run !== this.#latencyOf) this.#latency = new Latency(low ? FURTHEST : FURTHEST_NORMAL);
    this.#latencyOf = run;
    this.#latency.open();
    this.#following = true;
    const distance = video ? null : { latency: this.#latency, low };
    this.engine = engineFor(this.video, this.#address(), distance, report, () => this.#look());
  }

  #address(): string {
    if (this.manner.low || this.manner.video) return this.playlist;
    return `${this.playlist}${this.playlist.includes("?") ? "&" : "?"}latency=normal`;
  }

  /** Enough is available: play. */
  #release(): void {
    this.#held = false;
    this.video.autoplay = true;
    void this.play();
  }

  #leave(): void {
    this.engine?.stop();
    // Nothing else sets the speed of a live stream.
    if (!this.manner.video) this.video.playbackRate = 1;
    this.engine = null;
    this.run = null;
    this.#begun = this.#held = this.#over = false;
    this.#position = 0;
  }

  /** Play; muted where the browser allows no sound before the viewer acts. */
  async play(): Promise<void> {
    try {
      await this.video.play();
    } catch (error) {
      // Autoplay with sound is refused without user action: play muted.
      if (!(error instanceof DOMException) || error.name !== "NotAllowedError") return;
      if (this.video.muted) return;
      this.video.muted = true;
      await this.video.play().catch(() => undefined);
    }
  }
}
