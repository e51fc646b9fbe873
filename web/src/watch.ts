/** The player page: binds the controls of the page to one `Show`. */

import type Hls from "hls.js";

import { bindKeys, toggle } from "./keys";
import { Show } from "./show";
import { bindTimeline } from "./timeline";
import type { Fault } from "./engine";
import type { State } from "./state";

/** State exposed to tests; the page itself does not read it. */
interface Hook {
  readonly hls: Hls | null;
  readonly video: HTMLVideoElement;
  readonly run: string | null;
  readonly stalls: number;
  readonly faults: readonly Fault[];
  state(): State;
}

declare global {
  interface Window {
    headend?: Hook;
  }
}

type Words = Record<State, string>;

const OF_STREAMS: Words = {
  waiting: "The stream has not begun. It will start here by itself.",
  starting: "Looking for the stream…",
  playing: "Playing",
  reconnecting: "Connection lost. Trying again…",
  ended: "The stream has ended. If it goes on, it will start here by itself.",
  gone: "This stream is no longer available.",
  blocked: "Not available in your country.",
};

const OF_VIDEOS: Words = {
  ...OF_STREAMS,
  waiting: "The video is being prepared. It will start here by itself.",
  starting: "Loading the video…",
  ended: "The video has ended.",
  gone: "This video is no longer available.",
};

const OF_FAILED: Words = { ...OF_VIDEOS, waiting: "This video could not be prepared." };

const COLOR = /^#[0-9a-f]{6}$/i;

// More than hls.js lets playback drift, less than a manual jump back.
const LIVE_WITHIN = 4; // seconds

function part<T extends HTMLElement>(name: string, type: new () => T): T {
  const found = document.querySelector(`[data-part="${name}"]`);
  if (!(found instanceof type)) throw new Error(`the page has no ${name}`);
  return found;
}

function main(): void {
  const stage = part("stage", HTMLElement);
  const video = part("video", HTMLVideoElement);
  const message = part("message", HTMLElement);
  const status = part("status", HTMLElement);
  const live = part("live", HTMLButtonElement);
  const unmute = part("unmute", HTMLButtonElement);
  const quality = part("quality", HTMLSelectElement);
  const subtitles = part("subtitles", HTMLSelectElement);

  const { playlist = "", kind, poster, color = "", failed } = stage.dataset;
  const isVideo = kind === "video";
  const words = !isVideo ? OF_STREAMS : failed === "true" ? OF_FAILED : OF_VIDEOS;
  const manner = { video: isVideo, autoplay: video.autoplay };
  if (poster) video.poster = poster;
  // Set through the DOM, since the policy of the page forbids inline styles.
  if (COLOR.test(color)) document.documentElement.style.setProperty("--accent", color);
  const show = new Show(video, playlist, manner, () => refresh());

  function refresh(): void {
    const { behind, state } = show;
    if (stage.dataset["state"] !== state) {
      stage.dataset["state"] = state;
      status.textContent = message.textContent = words[state];
    }
    const running = state !== "reconnecting" && !video.paused && !video.ended;
    stage.dataset["running"] = String(running);
    live.hidden = behind === null;
    const atEdge = behind !== null && behind < LIVE_WITHIN && running;
    live.dataset["edge"] = String(atEdge);
    live.setAttribute("aria-label", atEdge ? "Live" : "Go to the live edge");
    unmute.hidden = state !== "playing" || !video.muted;
    offer(quality, show);
    offerSubtitles(subtitles, show);
  }
  for (const name of ["play", "pause", "ended", "volumechange", "seeked"]) {
    video.addEventListener(name, refresh);
  }
  setInterval(refresh, 500);

  live.addEventListener("click", () => show.goLive());
  unmute.addEventListener("click", () => {
    video.muted = false;
    if (video.volume === 0) video.volume = 1;
    video.focus();
  });
  quality.addEventListener("change", () => {
    const { hls } = show.engine ?? {};
    if (!hls) return;
    const chosen = Number(quality.value);
    // A video may be buffered to its end: the chosen rung would never be seen.
    if (chosen >= 0 && hls.latestLevelDetails?.live === false) hls.currentLevel = chosen;
    else hls.nextLevel = chosen;
  });
  subtitles.addEventListener("change", () => {
    const { hls } = show.engine ?? {};
    if (hls) hls.subtitleTrack = Number(subtitles.value);
  });
  bindKeys(video, () => show.goLive());
  const { previews } = stage.dataset;
  if (isVideo && previews) {
    const slider = part("slider", HTMLInputElement);
    const preview = part("preview", HTMLElement);
    const picture = part("picture", HTMLElement);
    const time = part("time", HTMLElement);
    void bindTimeline({ stage, video, slider, preview, picture, time }, previews);
  }
  // Without controls, the picture itself is the button.
  if (!video.controls) video.addEventListener("click", () => toggle(video));

  window.headend = {
    video,
    get hls() {
      return show.engine?.hls ?? null;
    },
    get run() {
      return show.run;
    },
    get stalls() {
      return show.stalls;
    },
    faults: show.faults,
    state: () => show.state,
  };
  show.start();
}

/** Fill the menu of rungs; only when they change, since the menu may be open. */
function offer(quality: HTMLSelectElement, show: Show): void {
  const { rungs, hls } = show.engine ?? { rungs: [], hls: null };
  quality.parentElement?.toggleAttribute("hidden", rungs.length < 2);
  if (hls === null) return;
  const now = rungs.find(({ index }) => index === hls.currentLevel);
  const auto = now && hls.autoLevelEnabled ? `Auto (${now.label})` : "Auto";
  const wanted = [
    { value: "-1", text: auto },
    ...rungs.map(({ index, label }) => ({ value: String(index), text: label })),
  ];
  fill(quality, wanted, String(hls.autoLevelEnabled ? -1 : hls.nextLevel));
}

/** Fill the menu of subtitles, which are off until one is chosen. */
function offerSubtitles(subtitles: HTMLSelectElement, show: Show): void {
  const { hls } = show.engine ?? { hls: null };
  const tracks = hls?.subtitleTracks ?? [];
  subtitles.parentElement?.toggleAttribute("hidden", tracks.length === 0);
  if (hls === null) return;
  const wanted = [
    { value: "-1", text: "Off" },
    ...tracks.map(({ id, name }) => ({ value: String(id), text: name })),
  ];
  // The menu of the browser may have selected another one.
  fill(subtitles, wanted, String(hls.subtitleTrack));
}

function fill(
  menu: HTMLSelectElement,
  wanted: readonly { value: string; text: string }[],
  chosen: string,
): void {
  const { options } = menu;
  wanted.forEach(({ value, text }, place) => {
    const option = options[place] ?? menu.appendChild(new Option());
    if (option.value !== value) option.value = value;
    if (option.text !== text) option.text = text;
  });
  while (options.length > wanted.length) options.remove(options.length - 1);
  if (menu.value !== chosen && document.activeElement !== menu) menu.value = chosen;
}

main();
