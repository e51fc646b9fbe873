/**
 * The time line: of a video, or of the part of a live stream that viewers may go back to. It is a
 * plain slider, so the keyboard and screen readers know it. Videos show preview pictures over it.
 */

import type { Parts } from "./layout";
import { clock, parse, pictureAt, type Picture } from "./previews";
import { bufferedTo } from "./ranges";
import type { Show } from "./show";
import { LABELS } from "./words";

const STEP = 5; // seconds, as the arrow keys do elsewhere
const FAR_STEP = 60;

// A live window shorter than this is only the buffer of slow players: no time line for it.
const SHORTEST_WINDOW = 60; // seconds

// Released this near to the live edge, it means the live edge.
const SNAP = 3; // seconds

/** Binds the slider to a show. */
export class Timeline {
  #held = false; // the viewer is choosing a position
  #pictures: readonly Picture[] = [];

  constructor(
    private readonly parts: Parts,
    private readonly show: Show,
    private readonly list: string,
  ) {
    const { slider, video } = parts;
    slider.addEventListener("pointermove", (event) => this.#preview(this.#under(event)));
    slider.addEventListener("pointerleave", () => this.#hide());
    slider.addEventListener("input", () => {
      this.#held = true;
      this.#go(Number(slider.value));
      this.#preview(Number(slider.value));
      this.#describe();
    });
    slider.addEventListener("change", () => {
      this.#held = false;
    });
    slider.addEventListener("blur", () => {
      this.#held = false;
      this.#hide();
    });
    slider.addEventListener("keydown", (event) => this.#key(event));
    for (const name of ["timeupdate", "durationchange", "loadedmetadata", "seeked", "progress"]) {
      video.addEventListener(name, () => this.follow());
    }
    slider.hidden = true;
    if (list !== "") void this.#fetch();
  }

  /** Show where the video is. */
  follow(): void {
    const { slider, clock: shown } = this.parts;
    const span = this.show.span;
    const { live } = this.show;
    slider.hidden = span === null || (live && span.end - span.start < SHORTEST_WINDOW);
    shown.hidden = slider.hidden;
    if (span === null || this.#held) return;
    slider.min = String(span.start);
    slider.max = String(span.end);
    slider.value = String(this.show.video.currentTime);
    slider.setAttribute("aria-label", live ? LABELS.rewind : LABELS.position);
    this.#describe();
  }

  async #fetch(): Promise<void> {
    try {
      const answer = await fetch(this.list);
      if (answer.ok) this.#pictures = parse(await answer.text());
    } catch {
      // The video plays without previews.
    }
  }

  #go(moment: number): void {
    const { span, live } = this.show;
    if (span === null) return;
    if (live && moment > span.end - SNAP) this.show.goLive();
    else this.show.seek(moment);
  }

  /** Arrow keys move as on the page; a slider by itself would move by a hundredth. */
  #key(event: KeyboardEvent): void {
    if (event.ctrlKey || event.altKey || event.metaKey) return;
    const { slider } = this.parts;
    const value = this.#target(event.key, Number(slider.value));
    if (value === null) return;
    event.preventDefault();
    slider.value = String(value);
    slider.dispatchEvent(new Event("input"));
    slider.dispatchEvent(new Event("change"));
  }

  #target(key: string, value: number): number | null {
    const { slider } = this.parts;
    if (key === "Home") return Number(slider.min);
    if (key === "End") return Number(slider.max);
    const steps: Record<string, number> = {
      ArrowLeft: -STEP,
      ArrowDown: -STEP,
      ArrowRight: STEP,
      ArrowUp: STEP,
      PageDown: -FAR_STEP,
      PageUp: FAR_STEP,
    };
    const step = steps[key];
    return step === undefined ? null : value + step;
  }

  #describe(): void {
    const { slider, clock: shown } = this.parts;
    const span = this.show.span;
    if (span === null) return;
    const value = Number(slider.value);
    const long = span.end - span.start;
    const [short, said] = this.show.live
      ? behindWords(span.end - value)
      : [`${clock(value)} /\u00a0${clock(span.end)}`, `${clock(value)} of ${clock(span.end)}`];
    if (slider.getAttribute("aria-valuetext") !== said) slider.setAttribute("aria-valuetext", said);
    if (shown.textContent !== short) shown.textContent = short;
    // The played and the buffered part are painted up to here.
    const share = (moment: number): string => `${(100 * (moment - span.start)) / long}%`;
    slider.style.setProperty("--seen", share(value));
    slider.style.setProperty("--had", share(bufferedTo(this.show.video)));
  }

  #under(event: PointerEvent): number {
    const { slider } = this.parts;
    const { left, width } = slider.getBoundingClientRect();
    const share = width > 0 ? (event.clientX - left) / width : 0;
    const [first, last] = [Number(slider.min), Number(slider.max)];
    return first + Math.min(Math.max(share, 0), 1) * (last - first);
  }

  #preview(moment: number): void {
    const { preview, picture, slider, host, time } = this.parts;
    const span = this.show.span;
    if (span === null || !Number.isFinite(moment)) return;
    this.#paint(pictureAt(this.#pictures, moment), picture);
    const [short, said] = behindWords(span.end - moment);
    time.textContent = this.show.live ? short || said : clock(moment);
    preview.hidden = false;
    const bounds = slider.getBoundingClientRect();
    const start = bounds.left - host.getBoundingClientRect().left;
    const place = start + (bounds.width * (moment - span.start)) / (span.end - span.start);
    const half = preview.offsetWidth / 2;
    const furthest = Math.max(half, host.clientWidth - half);
    preview.style.left = `${Math.min(Math.max(place, half), furthest)}px`;
  }

  #paint(found: Picture | null, picture: HTMLElement): void {
    picture.hidden = found === null;
    if (found === null) return;
    const [left, top, width, height] = found.area;
    // The list may be on another host; its pictures must be in the same folder.
    const base = new URL(this.list, location.href);
    const address = new URL(found.sheet, base);
    picture.hidden = address.origin !== base.origin;
    if (picture.hidden) return;
    picture.style.width = `${width}px`;
    picture.style.height = `${height}px`;
    picture.style.backgroundImage = `url("${address.href}")`;
    picture.style.backgroundPosition = `-${left}px -${top}px`;
  }

  #hide(): void {
    if (!this.#held) this.parts.preview.hidden = true;
  }
}

/** A place in a live stream: to be read, and to be heard. */
function behindWords(behind: number): [string, string] {
  if (behind < SNAP) return ["", LABELS.live]; // the live button shows it
  return [`−${clock(behind)}`, `${clock(behind)} behind live`];
}
