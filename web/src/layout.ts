/** The elements of the player, as they are before anything plays. */

import { icon, make, type IconName } from "./make";
import { LABELS } from "./words";

/** Everything that the rest of the player moves. */
export interface Parts {
  host: HTMLElement;
  video: HTMLVideoElement;
  status: HTMLElement; // for screen readers
  message: HTMLElement;
  toast: HTMLElement;
  start: HTMLButtonElement;
  unmute: HTMLButtonElement;
  preview: HTMLElement;
  picture: HTMLElement;
  time: HTMLElement;
  bar: HTMLElement;
  slider: HTMLInputElement;
  play: HTMLButtonElement;
  mute: HTMLButtonElement;
  volume: HTMLInputElement;
  live: HTMLButtonElement;
  clock: HTMLElement;
  captions: HTMLButtonElement;
  gear: HTMLButtonElement;
  menu: HTMLElement;
  quality: HTMLSelectElement;
  speed: HTMLSelectElement;
  subtitles: HTMLSelectElement;
  audio: HTMLSelectElement;
  latency: HTMLSelectElement;
  airplay: HTMLButtonElement;
  cast: HTMLButtonElement;
  pip: HTMLButtonElement;
  full: HTMLButtonElement;
}

/** Build the player within `host`. */
export function build(host: HTMLElement, title: string): Parts {
  const parts: Parts = {
    host,
    video: make("video", { "data-part": "video", playsinline: "", "aria-label": title }),
    status: make("p", { class: "unseen", "data-part": "status", role: "status" }),
    message: make("p", { "data-part": "message" }),
    toast: make("p", { class: "toast", "data-part": "toast", role: "status" }),
    start: make(
      "button",
      { type: "button", class: "start", "data-part": "start", hidden: "" },
      icon("play"),
    ),
    unmute: make("button", { type: "button", class: "unmute", "data-part": "unmute", hidden: "" }),
    preview: make("div", {
      class: "preview",
      "data-part": "preview",
      "aria-hidden": "true",
      hidden: "",
    }),
    picture: make("div", { class: "picture", "data-part": "picture" }),
    time: make("span", { "data-part": "time" }),
    bar: make("div", { class: "bar", "data-part": "bar", role: "group" }),
    slider: range("slider", LABELS.position),
    play: button("play", "play", LABELS.play, "k"),
    mute: button("mute", "loud", LABELS.mute, "m"),
    volume: range("volume", LABELS.volume),
    live: make("button", { type: "button", class: "live", "data-part": "live", hidden: "" }),
    clock: make("span", { class: "clock", "data-part": "clock" }),
    captions: button("captions", "subtitles", LABELS.subtitles, "c"),
    gear: button("gear", "settings", LABELS.settings),
    menu: make("div", { class: "menu", "data-part": "menu", role: "group", hidden: "" }),
    quality: make("select", { "data-part": "quality" }),
    speed: make("select", { "data-part": "speed" }),
    subtitles: make("select", { "data-part": "subtitles" }),
    audio: make("select", { "data-part": "audio" }),
    latency: make("select", { "data-part": "latency" }),
    airplay: button("airplay", "airplay", LABELS.airplay),
    cast: button("cast", "cast", LABELS.cast),
    pip: button("pip", "picture", LABELS.picture, "i"),
    full: button("full", "full", LABELS.full, "f"),
  };
  arrange(parts);
  return parts;
}

function arrange(parts: Parts): void {
  const { bar, menu, gear, captions, preview, live, unmute } = parts;
  bar.setAttribute("aria-label", LABELS.controls);
  menu.setAttribute("aria-label", LABELS.settings);
  gear.setAttribute("aria-expanded", "false");
  captions.setAttribute("aria-pressed", "false");
  live.append(LABELS.live.toUpperCase());
  unmute.append(icon("silent"), LABELS.unmute);
  preview.append(parts.picture, parts.time);
  menu.append(
    row(LABELS.quality, parts.quality),
    row(LABELS.speed, parts.speed),
    row(LABELS.subtitles, parts.subtitles),
    row(LABELS.audio, parts.audio),
    row(LABELS.latency, parts.latency),
  );
  const buttons = make("div", { class: "buttons" });
  buttons.append(parts.play, parts.mute, parts.volume, live, parts.clock);
  buttons.append(make("span", { class: "gap" }));
  buttons.append(captions, gear, parts.airplay, parts.cast, parts.pip, parts.full);
  bar.append(parts.slider, buttons);
  const curtain = make("div", { class: "curtain", "aria-hidden": "true" });
  curtain.append(make("div", { class: "pulse" }), parts.message);
  parts.host.replaceChildren(parts.video, parts.status, curtain, parts.start, parts.toast);
  parts.host.append(unmute, preview, bar, menu);
}

function button(part: string, shows: IconName, label: string, key?: string): HTMLButtonElement {
  const keyed: Record<string, string> = key === undefined ? {} : { "aria-keyshortcuts": key };
  const title = key === undefined ? label : `${label} (${key})`;
  return make(
    "button",
    { type: "button", class: "tool", "data-part": part, "aria-label": label, title, ...keyed },
    icon(shows),
  );
}

function range(part: string, label: string): HTMLInputElement {
  const bounds = { min: "0", max: "1", value: "0", step: "any" };
  return make("input", {
    type: "range",
    class: part,
    "data-part": part,
    "aria-label": label,
    ...bounds,
  });
}

function row(name: string, select: HTMLSelectElement): HTMLLabelElement {
  select.setAttribute("aria-label", name);
  return make("label", { hidden: "" }, make("span", {}, name), select);
}

/** Name a button anew, for eyes and for screen readers. */
export function name(button: HTMLButtonElement, label: string): void {
  if (button.getAttribute("aria-label") === label) return;
  const key = button.getAttribute("aria-keyshortcuts");
  button.setAttribute("aria-label", label);
  button.title = key === null ? label : `${label} (${key})`;
}

/** Fill a menu; only what changes, since it may be open. It is hidden while there is no choice. */
export function fill(
  menu: HTMLSelectElement,
  wanted: readonly { value: string; text: string }[],
  chosen: string,
  least = 2,
): void {
  menu.parentElement?.toggleAttribute("hidden", wanted.length < least);
  const { options } = menu;
  wanted.forEach(({ value, text }, place) => {
    const option = options[place] ?? menu.appendChild(new Option());
    if (option.value !== value) option.value = value;
    if (option.text !== text) option.text = text;
  });
  while (options.length > wanted.length) options.remove(options.length - 1);
  if (menu.value !== chosen && document.activeElement !== menu) menu.value = chosen;
}
