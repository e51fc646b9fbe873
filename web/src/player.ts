/**
 * `<headend-player>`: one stream or one video with its controls.
 *
 *     <headend-player data-kind="stream" data-playlist="/live/HASH/index.m3u8"
 *       data-title="A stream" autoplay muted controls></headend-player>
 *
 * Attributes are read once, when the element is connected. `docs/playback.md` describes them. Its
 * parts are in the page's own tree, styled by the page's style sheet: nothing is styled inline, so
 * the strictest policy holds.
 */

import type Hls from "hls.js";

import { Controls } from "./controls";
import type { Fault } from "./engine";
import { build, type Parts } from "./layout";
import { bindMediaSession } from "./media_session";
import { Memory } from "./memory";
import { Show } from "./show";
import type { State } from "./state";
import { Timeline } from "./timeline";
import { wordsFor } from "./words";

const COLOR = /^#[0-9a-f]{6}$/i;
const TICK = 500; // ms between two looks at what no event tells

/** The element. */
export class HeadendPlayer extends HTMLElement {
  #show: Show | null = null;
  #parts: Parts | null = null;
  #gone = new AbortController();

  connectedCallback(): void {
    const { playlist = "", poster = "", color = "", title = "" } = this.dataset;
    this.#gone = new AbortController();
    const { signal } = this.#gone;
    const parts = build(this, title);
    const { video } = parts;
    const isVideo = this.dataset["kind"] === "video";
    const words = wordsFor(isVideo, this.dataset["failed"] === "true");
    const memory = new Memory(() => localStorage);
    const choices = memory.read();
    const low = this.dataset["latency"] !== "normal";
    const manner = {
      video: isVideo,
      autoplay: this.hasAttribute("autoplay"),
      low: low && choices.latency !== "normal",
    };
    video.muted = video.defaultMuted = this.hasAttribute("muted");
    video.loop = this.hasAttribute("loop");
    if (poster) video.poster = poster;
    // Set through the DOM, since the policy of the page forbids inline styles.
    if (COLOR.test(color)) this.style.setProperty("--accent", color);
    const show = new Show(video, playlist, manner, () => refresh());
    const timeline = new Timeline(parts, show, isVideo ? (this.dataset["previews"] ?? "") : "");
    const options = { video: isVideo, controls: this.hasAttribute("controls"), low };
    const controls = new Controls(parts, show, timeline, memory, options, signal);
    // A frame that its page wants to be silent stays so, whatever was chosen elsewhere.
    if (video.muted && window !== window.parent) delete choices.muted;
    controls.recall(choices);
    const place = bindMediaSession(show, { title, poster });

    const refresh = (): void => {
      const { state } = show;
      if (this.dataset["state"] !== state) {
        this.dataset["state"] = state;
        parts.status.textContent = parts.message.textContent = words[state];
        this.dispatchEvent(new CustomEvent("statechange", { detail: state }));
      }
      controls.refresh();
    };
    for (const name of ["play", "pause", "ended", "volumechange", "seeked", "ratechange"]) {
      video.addEventListener(name, () => {
        refresh();
        place();
      });
    }
    video.addEventListener("loadedmetadata", refresh);
    const timer = setInterval(refresh, TICK);
    signal.addEventListener("abort", () => clearInterval(timer));
    this.#parts = parts;
    this.#show = show;
    show.start();
  }

  disconnectedCallback(): void {
    this.#gone.abort();
    this.#show?.stop();
    this.#show = this.#parts = null;
    this.replaceChildren();
  }

  /** The media element, for events and for what this element does not wrap; null if not connected. */
  get video(): HTMLVideoElement | null {
    return this.#parts?.video ?? null;
  }

  /** hls.js; null where the browser plays by itself, and before there is a run. */
  get hls(): Hls | null {
    return this.#show?.engine?.hls ?? null;
  }

  /** The run that plays. */
  get run(): string | null {
    return this.#show?.run ?? null;
  }

  get state(): State {
    return this.#show?.state ?? "starting";
  }

  /** How often moving pictures had to wait. */
  get stalls(): number {
    return this.#show?.stalls ?? 0;
  }

  /** The latest errors, also those that were got over. */
  get faults(): readonly Fault[] {
    return this.#show?.faults ?? [];
  }

  async play(): Promise<void> {
    await this.#show?.play();
  }

  pause(): void {
    this.#parts?.video.pause();
  }

  /** Go to a position in seconds; not beyond what there is. */
  seek(position: number): void {
    this.#show?.seek(position);
  }

  /** Go to the live edge and play. */
  goLive(): void {
    this.#show?.goLive();
  }
}

customElements.define("headend-player", HeadendPlayer);
