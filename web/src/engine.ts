/** Plays a playlist: with hls.js wherever it runs, else with the player of the browser. */

import Hls, {
  ErrorTypes,
  Events,
  type ErrorData,
  type HlsConfig,
  type LevelDetails,
  type LevelLoadedData,
} from "hls.js";

import { JUMP, type Latency } from "./latency";
import { bufferedTo, entryAt } from "./ranges";
import { reloading } from "./reload";

/** One rung in the menu. */
export interface Rung {
  index: number; // level index in hls.js
  label: string;
  height: number;
}

/** An error that the page has recorded. */
export interface Fault {
  type: string;
  details: string;
  fatal: boolean;
}

/**
 * Facts of one engine, read by whoever decides. Nothing here is an event that could be missed.
 *
 * `broken`: it gave up and waits for `mend`. `closed`: the playlist has its end. `late`: it had
 * its end when it was first read, so the run was over before this page came. `ready`: it is as far
 * from the edge as it shall play.
 * `behind`: seconds from the position to the newest media, where the engine knows them.
 */
export interface Engine {
  readonly hls: Hls | null;
  readonly broken: boolean;
  readonly closed: boolean;
  readonly late: boolean;
  readonly ready: boolean;
  readonly behind: number | null;
  readonly rungs: readonly Rung[];
  /** Keep the distance, if the engine has one to keep. */
  steer(now: number, following: boolean): void;
  mend(): void;
  stop(): void;
}

// Segments are 2 s (at most 4 s, the target duration), a playlist lists the newest 30 s. When an
// encoder falls silent the next segment comes up to 3 s late: for 2 s nobody can tell, and the other
// encoder's next keyframe may be the nearer one. Beside that a segment takes 2 s.
const NORMAL_DISTANCE = 6; // seconds behind the newest segment

// Where a server does not hold requests for the next segment: a reload that finds nothing new may be
// repeated only half a target duration, 2 s, later. A new run plays when so much is available:
// starting with its first segment, a viewer would stall at the first late one.
const STOCK = 8;

// Where the playlist has parts: as near as it allows. Where it has none, or not yet, see `#distance`.
const LOW_LATENCY: Partial<HlsConfig> = { lowLatencyMode: true };

const NORMAL_LATENCY: Partial<HlsConfig> = {
  lowLatencyMode: false,
  // In seconds, since hls.js' counts are of target durations: its default of 3 would be 12 s
  // behind, six of our segments.
  liveSyncDuration: NORMAL_DISTANCE,
  // Behind this it jumps to the edge: beyond, segments leave the 30 s window as they are asked for.
  liveMaxLatencyDuration: JUMP,
};

const CONFIG: Partial<HlsConfig> = {
  // A live stream has no duration; browsers then show their live controls.
  liveDurationInfinity: true,
  // `Latency` counts the stalls.
  liveSyncOnStallIncrease: 0,
  backBufferLength: 30,
  maxBufferLength: 30,
  // A small frame needs no 1080p; any rung can be chosen in the menu.
  capLevelToPlayerSize: true,
  // The module build carries no worker, and the media is CMAF already: there is nothing to remux
  // that would be worth one. The policy of the page needs no `worker-src` then.
  enableWorker: false,
  // Our playlists have none of these.
  enableInterstitialPlayback: false,
  enableEmsgMetadataCues: false,
  enableID3MetadataCues: false,
  manifestLoadPolicy: patience(8_000, 3),
  playlistLoadPolicy: patience(8_000, 4),
  fragLoadPolicy: patience(20_000, 4),
};

// Seconds of a long live window that hls.js must not play: media there are about to leave it.
const WINDOW_MARGIN = 6;

// Seconds: less than one picture or audio frame, by which their ends may differ.
const HOLE = 0.1;

// Seconds: a video this short may have a single picture.
const SHORT = 1;

function patience(whole: number, tries: number): HlsConfig["fragLoadPolicy"] {
  const retry = { maxNumRetry: tries, retryDelayMs: 500, maxRetryDelayMs: 2_000 };
  return {
    default: {
      maxTimeToFirstByteMs: 8_000,
      maxLoadTimeMs: whole,
      timeoutRetry: retry,
      errorRetry: retry,
    },
  };
}

/** The distance to the live edge: its owner, and whether it is as near as the playlist allows. */
export interface Distance {
  latency: Latency;
  low: boolean;
}

/**
 * Load `address` into `video`; `report` is called for each error, `loaded` for each playlist.
 * `distance` is null for a video.
 */
export function engineFor(
  video: HTMLVideoElement,
  address: string,
  distance: Distance | null,
  report: (fault: Fault) => void,
  loaded: () => void,
): Engine {
  // Chromium plays HLS itself, but without a choice of rungs, so hls.js comes first.
  if (Hls.isSupported()) return new HlsEngine(video, address, distance, report, loaded);
  return new NativeEngine(video, address, report);
}

class HlsEngine implements Engine {
  readonly hls: Hls;
  broken = false;
  closed = false;
  late = false;
  ready = false;
  rungs: readonly Rung[] = [];
  readonly #video: HTMLVideoElement;
  #seen = false;
  #holds = true; // the server holds requests for the next segment, as far as is known
  #shown = false; // a picture was shown: from now on viewers and hls.js set the position
  #cut = false; // the stream was ended before all of it was buffered
  #mended = Number.NEGATIVE_INFINITY;
  #fault: ErrorTypes = ErrorTypes.OTHER_ERROR;

  constructor(
    video: HTMLVideoElement,
    private readonly address: string,
    private readonly distance: Distance | null,
    private readonly report: (fault: Fault) => void,
    private readonly loaded: () => void,
  ) {
    this.#video = video;
    const normal = { ...NORMAL_LATENCY, pLoader: reloading(() => this.#holds) };
    this.hls = new Hls({ ...CONFIG, ...(distance?.low ? LOW_LATENCY : normal) });
    // Not among the options: there it would count for playlists with parts, too.
    if (distance?.low) this.hls.config.liveSyncDuration = STOCK;
    this.hls.on(Events.MANIFEST_PARSED, () => {
      this.rungs = this.hls.levels
        .map((level, index) => ({
          index,
          label: labelOf(level.url[0] ?? "", level.height),
          height: level.height,
        }))
        .filter(({ height }) => height > 0)
        .sort((one, other) => other.height - one.height);
    });
    this.hls.on(Events.LEVEL_LOADED, (_, data) => this.#loaded(data));
    this.hls.on(Events.BUFFERED_TO_END, () => this.#checkEnd());
    this.hls.on(Events.FRAG_BUFFERED, () => {
      this.#helpFirstPicture();
      this.#repairEnd();
    });
    video.addEventListener("loadeddata", () => (this.#shown = true), { once: true });
    this.hls.on(Events.ERROR, (_, data) => this.#failed(data));
    this.hls.attachMedia(video);
    this.hls.loadSource(address);
  }

  mend(): void {
    if (!this.broken) return;
    this.broken = false;
    this.hls.nextLevel = -1; // the chosen rung may be the one that is gone
    if (this.hls.levels.length === 0) this.hls.loadSource(this.address);
    else if (this.#fault === ErrorTypes.MEDIA_ERROR) this.hls.recoverMediaError();
    else this.hls.startLoad();
  }

  stop(): void {
    this.hls.destroy();
  }

  get behind(): number | null {
    const details = this.hls.latestLevelDetails;
    return details?.live ? details.edge + details.age - this.#video.currentTime : null;
  }

  steer(now: number, following: boolean): void {
    const { behind } = this;
    const latency = this.distance?.latency ?? null;
    if (latency === null || latency.target === null || behind === null || this.closed) return;
    const video = this.#video;
    const ahead = bufferedTo(video) - video.currentTime;
    const course = latency.steer({ now, behind, ahead, following });
    this.hls.targetLatency = course.target;
    if (video.playbackRate !== course.rate) video.playbackRate = course.rate;
    const edge = this.hls.liveSyncPosition;
    if (!course.jump || edge === null || video.seeking) return;
    video.currentTime = entryAt(edge, this.hls.latestLevelDetails?.fragments ?? []);
  }

  #loaded({ details, deliveryDirectives }: LevelLoadedData): void {
    // A speed that was right for the live edge is not for the rest of an ended run.
    if (this.#seen && !this.closed && !details.live) this.#video.playbackRate = 1;
    this.closed = !details.live;
    if (!this.#seen) this.late = this.closed;
    this.#seen = true;
    if (deliveryDirectives !== null) this.#holds = details.advanced;
    // Without parts the mode only means that the next request is made at once.
    if (!this.distance?.low) this.hls.lowLatencyMode = this.#holds && !details.partList;
    const asked = details.live ? this.#distance(details) : null;
    if (asked !== null) this.distance?.latency.ask(asked);
    const window = details.edge - details.fragmentStart;
    const stock = (asked === null ? null : this.distance?.latency.target) ?? STOCK;
    if (this.closed || window >= stock) this.ready = true;
    // Viewers may go back as far as the playlist goes.
    if (details.live) this.hls.config.liveMaxLatencyDuration = Math.max(JUMP, window - WINDOW_MARGIN);
    this.loaded();
  }

  /** How far from the edge a live playlist is to be played; null: where hls.js starts. */
  #distance({ canBlockReload, partHoldBack }: LevelDetails): number | null {
    if (this.distance?.low) return canBlockReload && partHoldBack > 0 ? partHoldBack : null;
    return this.#holds ? NORMAL_DISTANCE : STOCK;
  }

  /** For a video, which has no live edge: what hls.js leaves to the play button. */
  #helpFirstPicture(): void {
    const video = this.#video;
    const { buffered, duration, currentTime } = video;
    if (this.#shown || !this.closed || buffered.length === 0) return;
    if (video.readyState !== video.HAVE_METADATA) return;
    // hls.js starts at the first decoded picture; at one picture per second that is long before.
    const first = this.hls.latestLevelDetails?.fragments[0]?.startPTS ?? 0;
    if (currentTime < first && buffered.start(0) <= first + HOLE) video.currentTime = first;
    // One so short that nothing follows its first picture: hls.js waits for the picture before it
    // tells the end, and the browser for the end before it shows the picture.
    else if (duration < SHORT && buffered.start(0) <= HOLE && buffered.end(0) >= duration - HOLE) {
      this.hls.trigger(Events.BUFFER_EOS, { type: null });
    }
  }

  // When another rung is chosen, hls.js removes the picture. Where it looks at the buffer before that
  // is done (after a seek, it does not remember that it has ended the stream), it ends the stream
  // again, without a picture. Browsers then take the picture for over, and show nothing of what is
  // appended later until there is a seek.

  #checkEnd(): void {
    const video = this.#video;
    this.#cut = bufferedTo(video) < video.duration - HOLE;
  }

  #repairEnd(): void {
    const video = this.#video;
    const { currentTime } = video;
    if (!this.#cut || bufferedTo(video) === currentTime) return;
    this.#cut = false;
    video.currentTime = currentTime;
  }

  #failed({ type, details, fatal }: ErrorData): void {
    this.report({ type, details, fatal });
    if (!fatal) return;
    this.#fault = type;
    this.broken = true;
    // A decoder that stumbles is set up anew at once, but not again and again: the second time
    // within 5 s the page's watch decides.
    const now = performance.now();
    if (type !== ErrorTypes.MEDIA_ERROR || now - this.#mended < 5_000) return;
    this.#mended = now;
    this.mend();
  }
}

/** HLS of the browser itself: Safari on old phones. It selects the rung. */
class NativeEngine implements Engine {
  readonly hls = null;
  readonly late = false;
  readonly ready = true; // it buffers by itself
  readonly behind = null;
  readonly rungs: readonly Rung[] = [];
  broken = false;
  readonly #failed = (): void => {
    this.broken = true;
    const { code, message } = this.video.error ?? { code: 0, message: "" };
    this.report({ type: "native", details: `${code} ${message}`.trim(), fatal: true });
  };

  constructor(
    private readonly video: HTMLVideoElement,
    private readonly address: string,
    private readonly report: (fault: Fault) => void,
  ) {
    video.addEventListener("error", this.#failed);
    video.src = address;
  }

  get closed(): boolean {
    return Number.isFinite(this.video.duration);
  }

  steer(): void {
    // The player of the browser keeps its distance itself.
  }

  mend(): void {
    if (!this.broken) return;
    this.broken = false;
    this.video.src = this.address;
    this.video.load();
  }

  stop(): void {
    this.video.removeEventListener("error", this.#failed);
    this.video.removeAttribute("src");
    this.video.load();
  }
}

/** The name of a rung from its folder (`.../1080p/index.m3u8`), or its height. */
function labelOf(address: string, height: number): string {
  return /\/(\d{3,4}p)\/[^/]*$/.exec(address)?.[1] ?? `${height}p`;
}
