/** What turns a playlist into pictures: hls.js wherever it runs, the browser's own player else. */

import Hls, {
  ErrorTypes,
  Events,
  type ErrorData,
  type HlsConfig,
  type LevelLoadedData,
} from "hls.js";

/** One rung as a viewer chooses it. */
export interface Rung {
  index: number; // hls.js' number of the level
  label: string;
  height: number;
}

/** An error as the page remembers it. */
export interface Fault {
  type: string;
  details: string;
  fatal: boolean;
}

/**
 * Facts of one engine, read by whoever decides. Nothing here is an event that could be missed.
 *
 * `broken`: it gave up and waits for `mend`. `closed`: the playlist has its end. `late`: it had
 * its end when it was first read, so the run was over before this page came. `ready`: it would
 * outlast a segment that comes late.
 */
export interface Engine {
  readonly hls: Hls | null;
  readonly broken: boolean;
  readonly closed: boolean;
  readonly late: boolean;
  readonly ready: boolean;
  readonly rungs: readonly Rung[];
  mend(): void;
  stop(): void;
}

// Segments are 2 s (at most 4 s, the target duration), a playlist lists the newest 30 s. A reload
// that finds nothing new may be repeated only half a target duration, 2 s, later, so the buffer
// must outlast one segment and that wait.
const CONFIG: Partial<HlsConfig> = {
  // In seconds, since hls.js' counts are of target durations: its default of 3 would be 12 s
  // behind, six of our segments. When an encoder falls silent the next segment comes up to 3 s late
  // (for 2 s nobody can tell, and the other encoder's next keyframe may be the nearer one) and up
  // to 2 s pass until it is asked for again, beside the 2 s that each takes. Each stall moves it 1 s
  // back.
  liveSyncDuration: 8,
  // Behind this it jumps to the edge: beyond, segments leave the 30 s window as they are asked for.
  liveMaxLatencyDuration: 24,
  // A live stream has no duration; browsers then show their live controls.
  liveDurationInfinity: true,
  backBufferLength: 30,
  maxBufferLength: 30,
  // A small frame needs no 1080p. By hand any rung can be had.
  capLevelToPlayerSize: true,
  // The module build carries no worker, and the media is CMAF already: there is nothing to remux
  // that would be worth one. The policy of the page needs no `worker-src` then.
  enableWorker: false,
  // Our playlists carry none of these.
  enableInterstitialPlayback: false,
  enableEmsgMetadataCues: false,
  enableID3MetadataCues: false,
  manifestLoadPolicy: patience(8_000, 3),
  playlistLoadPolicy: patience(8_000, 4),
  fragLoadPolicy: patience(20_000, 4),
};

// A run that has just begun is not played before so much of it is there (seconds): who began with
// its first segment would wait at the first one that is late. Until then its first picture stands.
const STOCK = 8;

// Less than a picture or a frame of sound lasts where they do not end together (seconds).
const HOLE = 0.1;

// A film that may be of one picture (seconds).
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

/** Load `address` into `video`; `report` hears of every error, `loaded` of every playlist. */
export function engineFor(
  video: HTMLVideoElement,
  address: string,
  report: (fault: Fault) => void,
  loaded: () => void,
): Engine {
  // Chromium says that it plays HLS itself, but then there is no choice of rungs: hls.js first.
  if (Hls.isSupported()) return new HlsEngine(video, address, report, loaded);
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
  #shown = false; // a picture: from then on viewers and hls.js decide where it stands
  #mended = Number.NEGATIVE_INFINITY;
  #fault: ErrorTypes = ErrorTypes.OTHER_ERROR;

  constructor(
    video: HTMLVideoElement,
    private readonly address: string,
    private readonly report: (fault: Fault) => void,
    private readonly loaded: () => void,
  ) {
    this.#video = video;
    this.hls = new Hls(CONFIG);
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
    this.hls.on(Events.FRAG_BUFFERED, () => this.#helpFirstPicture());
    video.addEventListener("loadeddata", () => (this.#shown = true), { once: true });
    this.hls.on(Events.ERROR, (_, data) => this.#failed(data));
    this.hls.attachMedia(video);
    this.hls.loadSource(address);
  }

  mend(): void {
    if (!this.broken) return;
    this.broken = false;
    this.hls.nextLevel = -1; // a rung chosen by hand may be the one that is gone
    if (this.hls.levels.length === 0) this.hls.loadSource(this.address);
    else if (this.#fault === ErrorTypes.MEDIA_ERROR) this.hls.recoverMediaError();
    else this.hls.startLoad();
  }

  stop(): void {
    this.hls.destroy();
  }

  #loaded({ details }: LevelLoadedData): void {
    this.closed = !details.live;
    if (!this.#seen) this.late = this.closed;
    this.#seen = true;
    if (this.closed || details.totalduration >= STOCK) this.ready = true;
    this.loaded();
  }

  /** Of a film, which has no live edge to go to: what hls.js leaves to whoever presses play. */
  #helpFirstPicture(): void {
    const video = this.#video;
    const { buffered, duration, currentTime } = video;
    if (this.#shown || !this.closed || buffered.length === 0) return;
    if (video.readyState !== video.HAVE_METADATA) return;
    // Its zero is when the first picture is decoded; at a picture a second that is long before.
    const first = this.hls.latestLevelDetails?.fragments[0]?.startPTS ?? 0;
    if (currentTime < first && buffered.start(0) <= first + HOLE) video.currentTime = first;
    // One so short that nothing follows its first picture: hls.js waits for the picture before it
    // tells the end, and the browser for the end before it shows the picture.
    else if (duration < SHORT && buffered.start(0) <= HOLE && buffered.end(0) >= duration - HOLE) {
      this.hls.trigger(Events.BUFFER_EOS, { type: null });
    }
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

/** The browser's own HLS: Safari on old telephones. It chooses the rung by itself. */
class NativeEngine implements Engine {
  readonly hls = null;
  readonly late = false;
  readonly ready = true; // it has a stock of its own
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

/** A rung's name as its folder says it (`.../1080p/index.m3u8`), its height where none is there. */
function labelOf(address: string, height: number): string {
  return /\/(\d{3,4}p)\/[^/]*$/.exec(address)?.[1] ?? `${height}p`;
}
