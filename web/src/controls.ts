/** The control bar, the menu and the keys: what the viewer does goes to the show. */

import { actionOf, focusOf, type Action } from "./keys";
import { fill, name, type Parts } from "./layout";
import { draw, type IconName } from "./make";
import { SPEEDS, type Choices, type Memory } from "./memory";
import type { Show } from "./show";
import type { Timeline } from "./timeline";
import { LABELS, speedLabel } from "./words";

// Without a movement for so long, the bar leaves the picture.
const REST = 3_000; // ms

const TOAST = 1_200; // ms

// More than hls.js lets playback drift, less than a manual jump back.
const LIVE_WITHIN = 4; // seconds

const FRAME = 1 / 30; // seconds; nothing tells a page the rate

/** Safari's own, which TypeScript does not know. */
interface AppleVideo extends HTMLVideoElement {
  webkitShowPlaybackTargetPicker?: () => void;
  webkitEnterFullscreen?: () => void;
}

/** What the owner decided about this player. */
export interface Options {
  video: boolean; // has an end and no live edge
  controls: boolean;
  low: boolean; // the viewer may choose the low delay
}

/** Binds the parts of one player to its show. */
export class Controls {
  #resting = 0;
  #toasting = 0;
  #lastSubtitles = 0; // the track that `c` switches on
  #subtitled: unknown = null; // the engine whose subtitles follow the viewer's earlier choice
  #touch = false;
  #pointed = false; // a mouse is on the bar

  constructor(
    private readonly parts: Parts,
    private readonly show: Show,
    private readonly timeline: Timeline,
    private readonly memory: Memory,
    private readonly options: Options,
    private readonly signal: AbortSignal,
  ) {
    this.#bindButtons();
    this.#bindMenus();
    this.#bindPointer();
    this.#bindScreens();
    parts.bar.hidden = !options.controls;
    const { host } = parts;
    const listening: Node = host.dataset["keys"] === "page" ? document : host;
    listening.addEventListener("keydown", (event) => this.#key(event as KeyboardEvent), { signal });
    this.#wake();
  }

  /** Take what the viewer chose another time. */
  recall(choices: Choices): void {
    const { video } = this.parts;
    if (choices.volume !== undefined) video.volume = choices.volume;
    if (choices.muted !== undefined) video.muted = choices.muted;
    if (choices.speed !== undefined && this.options.video) {
      video.defaultPlaybackRate = video.playbackRate = choices.speed;
    }
  }

  /** Show how things are. */
  refresh(): void {
    const { show, parts } = this;
    const { video, host, live, play, mute, volume, start, unmute } = parts;
    const { behind, state } = show;
    const running = state !== "reconnecting" && !video.paused && !video.ended;
    host.dataset["running"] = String(running);
    const over = video.ended;
    const paints: IconName = over ? "replay" : video.paused ? "play" : "pause";
    const says = over ? LABELS.replay : video.paused ? LABELS.play : LABELS.pause;
    draw(play.firstElementChild ?? play, paints);
    name(play, says);
    draw(start.firstElementChild ?? start, over ? "replay" : "play");
    name(start, over ? LABELS.replay : LABELS.play);
    const ready = video.readyState >= HTMLMediaElement.HAVE_METADATA;
    const shows = state === "playing" || state === "ended";
    start.hidden = !video.paused || !ready || !shows;
    const silent = video.muted || video.volume === 0;
    draw(mute.firstElementChild ?? mute, silent ? "silent" : "loud");
    name(mute, silent ? LABELS.unmute : LABELS.mute);
    if (document.activeElement !== volume) volume.value = String(silent ? 0 : video.volume);
    volume.style.setProperty("--seen", `${silent ? 0 : 100 * video.volume}%`);
    live.hidden = behind === null;
    const atEdge = behind !== null && behind < LIVE_WITHIN && running;
    live.dataset["edge"] = String(atEdge);
    live.setAttribute("aria-label", atEdge ? LABELS.live : LABELS.toLive);
    unmute.hidden = state !== "playing" || !video.muted || video.paused;
    this.#offer();
    this.timeline.follow();
  }

  /** Do what a key or the parent page asks for. */
  act(action: Action): void {
    const { show, parts } = this;
    const { video } = parts;
    switch (action.does) {
      case "toggle":
        return show.toggle();
      case "mute":
        return this.#setSound({ muted: !(video.muted || video.volume === 0) });
      case "louder":
        return this.#louder(action.amount);
      case "full":
        return void this.#fullScreen();
      case "captions":
        return this.#toggleSubtitles();
      case "picture":
        return void this.#pictureInPicture();
      case "seek":
        return show.seek(video.currentTime + action.amount);
      case "start":
        return show.seek(show.span?.start ?? 0);
      case "end":
        return show.live ? show.goLive() : show.seek(Number.MAX_SAFE_INTEGER);
      case "part":
        return this.#part(action.amount);
      case "frame":
        if (video.paused) show.seek(video.currentTime + action.amount * FRAME);
        return;
      case "speed":
        return this.#faster(action.amount);
    }
  }

  #bindButtons(): void {
    const { play, start, mute, volume, live, unmute, captions, gear, menu, pip, full } = this.parts;
    const click = (button: HTMLElement, act: () => void): void =>
      button.addEventListener("click", act);
    click(play, () => this.show.toggle());
    click(start, () => {
      this.show.toggle();
      if (this.options.controls) play.focus();
    });
    click(mute, () => this.act({ does: "mute" }));
    click(live, () => this.show.goLive());
    click(unmute, () => {
      this.#setSound({ muted: false });
      if (this.options.controls) mute.focus();
    });
    click(captions, () => this.#toggleSubtitles());
    click(gear, () => this.#openMenu(menu.hidden === true));
    click(pip, () => void this.#pictureInPicture());
    click(full, () => void this.#fullScreen());
    volume.addEventListener("input", () => {
      const chosen = Number(volume.value);
      this.#setSound({ volume: chosen, muted: chosen === 0 });
    });
    volume.addEventListener("keydown", (event) => {
      const by = { ArrowUp: 0.1, ArrowRight: 0.1, ArrowDown: -0.1, ArrowLeft: -0.1 }[event.key];
      if (by === undefined) return;
      event.preventDefault();
      this.#louder(by);
      volume.value = String(this.parts.video.volume);
    });
  }

  #bindMenus(): void {
    const { quality, speed, subtitles, audio, latency, menu, gear } = this.parts;
    const change = (select: HTMLSelectElement, act: (value: string) => void): void =>
      select.addEventListener("change", () => act(select.value));
    change(quality, (value) => this.#chooseQuality(Number(value)));
    change(speed, (value) => this.#setSpeed(Number(value)));
    change(subtitles, (value) => this.#setSubtitles(Number(value)));
    change(audio, (value) => {
      const { hls } = this.show.engine ?? {};
      if (hls) hls.audioTrack = Number(value);
    });
    change(latency, (value) => {
      this.show.setLow(value === "low");
      this.memory.keep({ latency: value === "low" ? "low" : "normal" });
    });
    menu.addEventListener("keydown", (event) => {
      if (event.key !== "Escape") return;
      this.#openMenu(false);
      gear.focus();
    });
    document.addEventListener(
      "pointerdown",
      ({ target }) => {
        const inside = target instanceof Node && (menu.contains(target) || gear.contains(target));
        if (!inside) this.#openMenu(false);
      },
      { signal: this.signal },
    );
  }

  #bindPointer(): void {
    const { host, video, bar } = this.parts;
    bar.addEventListener("pointerenter", ({ pointerType }) => {
      this.#pointed = pointerType === "mouse";
    });
    bar.addEventListener("pointerleave", () => {
      this.#pointed = false;
    });
    for (const type of ["pointermove", "pointerdown", "focusin", "keydown"]) {
      host.addEventListener(type, (event) => {
        const touched = event instanceof PointerEvent && event.pointerType === "touch";
        if (!touched || event.target !== video) this.#wake();
      });
    }
    // A finger leaves at the end of each tap, before the click that the tap makes.
    host.addEventListener("pointerleave", ({ pointerType }) => {
      if (pointerType !== "touch") this.#sleep();
    });
    video.addEventListener("pointerdown", (event) => {
      this.#touch = event.pointerType === "touch";
    });
    // A finger on the picture brings the controls or sends them away; a mouse plays or pauses.
    video.addEventListener("click", () => {
      if (!this.#touch || !this.options.controls) this.show.toggle();
      else if (host.dataset["active"] === "true") this.#sleep();
      else this.#wake();
    });
    video.addEventListener("dblclick", () => {
      if (!this.#touch && this.options.controls) void this.#fullScreen();
    });
  }

  #bindScreens(): void {
    const { host, pip, full, airplay, cast } = this.parts;
    const video: AppleVideo = this.parts.video;
    pip.hidden = !document.pictureInPictureEnabled;
    full.hidden = !document.fullscreenEnabled && video.webkitEnterFullscreen === undefined;
    airplay.hidden = cast.hidden = true;
    video.addEventListener("webkitplaybacktargetavailabilitychanged", (event) => {
      airplay.hidden = (event as Event & { availability?: string }).availability !== "available";
    });
    airplay.addEventListener("click", () => video.webkitShowPlaybackTargetPicker?.());
    const remote = video.remote as RemotePlayback | undefined;
    // Safari has both, and its own button says AirPlay.
    if (remote !== undefined && video.webkitShowPlaybackTargetPicker === undefined) {
      const known = (available: boolean): void => void (cast.hidden = !available);
      void remote.watchAvailability(known).catch(() => undefined);
      cast.addEventListener("click", () => void remote.prompt().catch(() => undefined));
    }
    document.addEventListener(
      "fullscreenchange",
      () => {
        const whole = document.fullscreenElement === host;
        draw(full.firstElementChild ?? full, whole ? "window" : "full");
        name(full, whole ? LABELS.window : LABELS.full);
      },
      { signal: this.signal },
    );
  }

  #key(event: KeyboardEvent): void {
    if (event.defaultPrevented) return;
    const action = actionOf(event, focusOf(event.target));
    if (action === null) return;
    event.preventDefault();
    this.#wake();
    this.act(action);
  }

  #wake(): void {
    const { host } = this.parts;
    host.dataset["active"] = "true";
    clearTimeout(this.#resting);
    this.#resting = window.setTimeout(() => this.#sleep(), REST);
  }

  #sleep(): void {
    const { host, bar, menu } = this.parts;
    // Who uses the keyboard or the menu must see where they are, and a mouse what it is on.
    if (!menu.hidden || this.#pointed || bar.querySelector(":focus-visible") !== null) return;
    host.dataset["active"] = "false";
  }

  #openMenu(open: boolean): void {
    const { menu, gear, host } = this.parts;
    if (menu.hidden === !open) return;
    menu.hidden = !open;
    gear.setAttribute("aria-expanded", String(open));
    this.#wake();
    if (open) menu.querySelector<HTMLSelectElement>("label:not([hidden]) select")?.focus();
    else if (host.contains(document.activeElement)) gear.focus();
  }

  #toast(text: string): void {
    const { toast } = this.parts;
    toast.textContent = text;
    toast.dataset["shown"] = "true";
    clearTimeout(this.#toasting);
    this.#toasting = window.setTimeout(() => {
      toast.dataset["shown"] = "false";
    }, TOAST);
  }

  #setSound(change: { muted: boolean; volume?: number }): void {
    const { video } = this.parts;
    if (change.volume !== undefined) video.volume = change.volume;
    video.muted = change.muted;
    // Unmuted at volume 0, nothing would be heard.
    if (!change.muted && video.volume === 0) video.volume = 1;
    this.memory.keep({ volume: video.volume, muted: video.muted });
  }

  #louder(by: number): void {
    const { video } = this.parts;
    const volume = Math.min(Math.max((video.muted ? 0 : video.volume) + by, 0), 1);
    const rounded = Math.round(volume * 100) / 100;
    this.#setSound({ volume: rounded, muted: rounded === 0 });
    this.#toast(`${LABELS.volume} ${Math.round(100 * rounded)} %`);
  }

  #part(share: number): void {
    const { span } = this.show;
    if (span !== null) this.show.seek(span.start + share * (span.end - span.start));
  }

  #faster(by: number): void {
    if (!this.options.video) return;
    const at = SPEEDS.indexOf(this.parts.video.playbackRate);
    const speed = SPEEDS[at + by];
    if (at < 0 || speed === undefined) return;
    this.#setSpeed(speed);
    this.#toast(`${LABELS.speed} ${speedLabel(speed)}`);
  }

  #setSpeed(speed: number): void {
    const { video } = this.parts;
    // The default, too: a new source begins with it.
    video.defaultPlaybackRate = video.playbackRate = speed;
    this.memory.keep({ speed });
  }

  #chooseQuality(chosen: number): void {
    const { hls } = this.show.engine ?? {};
    if (!hls) return;
    // A video may be buffered to its end: the chosen rung would never be seen.
    if (chosen >= 0 && hls.latestLevelDetails?.live === false) hls.currentLevel = chosen;
    else hls.nextLevel = chosen;
  }

  #setSubtitles(track: number): void {
    const { hls } = this.show.engine ?? {};
    if (!hls) return;
    hls.subtitleTrack = track;
    if (track >= 0) this.#lastSubtitles = track;
    const language = hls.subtitleTracks[track]?.lang ?? hls.subtitleTracks[track]?.name ?? "";
    this.memory.keep({ subtitles: track < 0 ? "" : language });
  }

  #toggleSubtitles(): void {
    const { hls } = this.show.engine ?? {};
    if (!hls || hls.subtitleTracks.length === 0) return;
    this.#setSubtitles(hls.subtitleTrack >= 0 ? -1 : this.#lastSubtitles);
    const shown = hls.subtitleTracks[hls.subtitleTrack]?.name ?? LABELS.off;
    this.#toast(`${LABELS.subtitles}: ${shown}`);
    this.#offer();
  }

  async #pictureInPicture(): Promise<void> {
    const { video, pip } = this.parts;
    if (pip.hidden) return;
    try {
      if (document.pictureInPictureElement === video) await document.exitPictureInPicture();
      else await video.requestPictureInPicture();
    } catch {
      // Before there is a picture, or in a frame without permission.
    }
  }

  async #fullScreen(): Promise<void> {
    const video: AppleVideo = this.parts.video;
    try {
      if (document.fullscreenElement) await document.exitFullscreen();
      else if (document.fullscreenEnabled) await this.parts.host.requestFullscreen();
      else video.webkitEnterFullscreen?.(); // phones that know full screen for videos only
    } catch {
      // A frame without permission for full screen.
    }
  }

  /** Fill the menus. */
  #offer(): void {
    const { quality, speed, latency, gear, video } = this.parts;
    const { rungs, hls } = this.show.engine ?? { rungs: [], hls: null };
    const now = rungs.find(({ index }) => index === hls?.currentLevel);
    const auto = now && hls?.autoLevelEnabled ? `${LABELS.auto} (${now.label})` : LABELS.auto;
    const rows = rungs.map(({ index, label }) => ({ value: String(index), text: label }));
    const level = hls === null || hls.autoLevelEnabled ? -1 : hls.nextLevel;
    // One rung is no choice.
    fill(quality, [{ value: "-1", text: auto }, ...rows], String(level), 3);
    const speeds = SPEEDS.map((each) => ({ value: String(each), text: speedLabel(each) }));
    fill(speed, this.options.video ? speeds : [], String(video.playbackRate));
    this.#offerTracks();
    const choice = this.options.low && !this.options.video && hls !== null;
    const delays = [
      { value: "low", text: LABELS.low },
      { value: "normal", text: LABELS.normal },
    ];
    fill(latency, choice ? delays : [], this.show.low ? "low" : "normal");
    gear.hidden = this.parts.menu.querySelector("label:not([hidden])") === null;
    if (gear.hidden) this.#openMenu(false);
  }

  #offerTracks(): void {
    const { subtitles, audio, captions } = this.parts;
    const { engine } = this.show;
    const hls = engine?.hls ?? null;
    const tracks = hls?.subtitleTracks ?? [];
    if (hls !== null && tracks.length > 0 && this.#subtitled !== engine) {
      this.#subtitled = engine;
      const wanted = this.memory.read().subtitles;
      const found = tracks.findIndex(({ lang, name }) => (lang ?? name) === wanted);
      if (wanted && found >= 0) hls.subtitleTrack = found;
    }
    const named = tracks.map(({ id, name }) => ({ value: String(id), text: name }));
    // The menu of the browser may have selected another one.
    const shown = hls?.subtitleTrack ?? -1;
    const off = { value: "-1", text: LABELS.off };
    fill(subtitles, tracks.length > 0 ? [off, ...named] : [], String(shown));
    captions.hidden = tracks.length === 0;
    captions.setAttribute("aria-pressed", String(shown >= 0));
    const sounds = (hls?.audioTracks ?? []).map(({ id, name }) => ({
      value: String(id),
      text: name,
    }));
    fill(audio, sounds, String(hls?.audioTrack ?? -1));
  }
}
