/**
 * A time line of our own for films that have preview pictures: the browser's tells nobody where the
 * pointer is. It is a plain slider, so the keyboard and screen readers know it; where the list of
 * pictures cannot be had, the browser's own line stays.
 */

import { clock, parse, pictureAt, type Picture } from "./previews";

const STEP = 5; // seconds, as the arrow keys do elsewhere

/** The elements of the page that it uses. */
export interface Parts {
  stage: HTMLElement;
  video: HTMLVideoElement;
  slider: HTMLInputElement;
  preview: HTMLElement;
  picture: HTMLElement;
  time: HTMLElement;
}

/** Fetch the list of pictures, then show the timeline. */
export async function bindTimeline(parts: Parts, list: string): Promise<void> {
  const pictures = await fetched(list);
  if (pictures.length === 0 || !parts.video.controls) return;
  const base = new URL(list, location.href);
  new Timeline(parts, pictures, base).bind();
}

async function fetched(list: string): Promise<Picture[]> {
  try {
    const answer = await fetch(list);
    return answer.ok ? parse(await answer.text()) : [];
  } catch {
    return []; // the video plays without previews
  }
}

class Timeline {
  #held = false; // the viewer is choosing a position

  constructor(
    private readonly parts: Parts,
    private readonly pictures: readonly Picture[],
    private readonly base: URL,
  ) {}

  bind(): void {
    const { slider, stage, video } = this.parts;
    slider.addEventListener("pointermove", (event) => this.#show(this.#under(event)));
    slider.addEventListener("pointerleave", () => this.#hide());
    slider.addEventListener("input", () => {
      this.#held = true;
      video.currentTime = Number(slider.value);
      this.#show(Number(slider.value));
      this.#tell();
    });
    slider.addEventListener("change", () => {
      this.#held = false;
    });
    slider.addEventListener("blur", () => {
      this.#held = false;
      this.#hide();
    });
    slider.addEventListener("keydown", (event) => this.#key(event));
    for (const name of ["timeupdate", "durationchange", "loadedmetadata", "seeked"]) {
      video.addEventListener(name, () => this.#follow());
    }
    stage.dataset["timeline"] = "true";
    this.#follow();
  }

  /** Arrow keys move as on the page; a slider by itself would move by a hundredth. */
  #key(event: KeyboardEvent): void {
    const step = { ArrowLeft: -STEP, ArrowRight: STEP }[event.key];
    if (step === undefined || event.ctrlKey || event.altKey || event.metaKey) return;
    event.preventDefault();
    const { slider } = this.parts;
    slider.value = String(Number(slider.value) + step);
    slider.dispatchEvent(new Event("input"));
    slider.dispatchEvent(new Event("change"));
  }

  #follow(): void {
    const { slider, video } = this.parts;
    const known = Number.isFinite(video.duration) && video.duration > 0;
    slider.hidden = !known;
    if (!known || this.#held) return;
    slider.max = String(video.duration);
    slider.value = String(video.currentTime);
    this.#tell();
  }

  #tell(): void {
    const { slider, video } = this.parts;
    const said = `${clock(Number(slider.value))} of ${clock(video.duration)}`;
    if (slider.getAttribute("aria-valuetext") !== said) slider.setAttribute("aria-valuetext", said);
    // The played part is painted up to here.
    slider.style.setProperty("--seen", `${(100 * Number(slider.value)) / video.duration}%`);
  }

  #under(event: PointerEvent): number {
    const { slider, video } = this.parts;
    const { left, width } = slider.getBoundingClientRect();
    const share = width > 0 ? (event.clientX - left) / width : 0;
    return Math.min(Math.max(share, 0), 1) * video.duration;
  }

  #show(moment: number): void {
    const { preview, picture, slider, stage, time, video } = this.parts;
    const found = pictureAt(this.pictures, moment);
    if (found === null || !Number.isFinite(moment)) return;
    const [left, top, width, height] = found.area;
    picture.style.width = `${width}px`;
    picture.style.height = `${height}px`;
    // The list may be on another host; its pictures must be in the same folder.
    const address = new URL(found.sheet, this.base);
    if (address.origin !== this.base.origin) return;
    picture.style.backgroundImage = `url("${address.href}")`;
    picture.style.backgroundPosition = `-${left}px -${top}px`;
    time.textContent = clock(moment);
    preview.hidden = false;
    const bounds = slider.getBoundingClientRect();
    const middle = bounds.left - stage.getBoundingClientRect().left;
    const place = middle + (bounds.width * moment) / video.duration;
    const half = preview.offsetWidth / 2;
    const furthest = Math.max(half, stage.clientWidth - half);
    preview.style.left = `${Math.min(Math.max(place, half), furthest)}px`;
  }

  #hide(): void {
    if (!this.#held) this.parts.preview.hidden = true;
  }
}
