/** Chooses a video's poster: a moment of it, the picture that the player shows, or a file.
 *
 * A moment is not taken from its preview, which is small: the player goes there, and what it shows
 * is sent in full size.
 */

import { clock, parse, type Picture } from "../previews";
import { alarm } from "./dom";
import { moments } from "./moments";
import { sendPicture } from "./send_file";
import { VIDEO_WORDS } from "./video_words";

const MOST = 8;
const SEEK_MS = 15_000;
const QUALITY = 0.92;
const WIDTH = 160; // of a moment's picture, in CSS pixels
// For a second the service may still look for the picture before, and answer with a placeholder, which
// browsers would keep.
const ANSWERED_MS = 1500;

/** Let the page's choices work, now and after each change of the page. */
export function bindPoster(): void {
  document.addEventListener("change", (event) => {
    const input = event.target;
    const choice = placeOf(input);
    if (!choice || !(input instanceof HTMLInputElement) || input.type !== "file") return;
    const file = input.files?.[0];
    input.value = "";
    if (file) void send(choice, file);
  });
  document.addEventListener("click", (event) => {
    const choice = placeOf(event.target);
    if (!choice || !(event.target instanceof Element)) return;
    if (event.target.closest("[data-part=frame]")) void sendFrame(choice, null);
    const moment = event.target.closest<HTMLElement>("[data-moment]");
    if (moment) void sendFrame(choice, Number(moment.dataset.moment));
  });
  void fill();
  document.addEventListener("htmx:afterSwap", () => void fill());
}

function placeOf(target: EventTarget | null): HTMLElement | null {
  return target instanceof Element ? target.closest<HTMLElement>("#poster-choice") : null;
}

/** Show the moments, which the server leaves empty. */
async function fill(): Promise<void> {
  const choice = document.querySelector<HTMLElement>("#poster-choice");
  const list = choice?.querySelector("[data-part=moments]");
  const address = choice?.dataset.previews;
  if (!choice || !list || list.childElementCount || !address) return;
  try {
    const response = await fetch(address, { credentials: "same-origin" });
    if (!response.ok) return;
    const found = moments(parse(await response.text()), MOST);
    if (list.childElementCount) return; // another one was faster
    list.append(...found.map((each) => item(each, new URL(address, location.href))));
  } catch {
    return; // there are two other ways
  }
}

function item(picture: Picture, base: URL): HTMLElement {
  const [left, top, width, height] = picture.area;
  const at = (picture.start + picture.end) / 2;
  const button = document.createElement("button");
  button.type = "button";
  button.className = "moment";
  button.dataset.moment = String(at);
  button.setAttribute("aria-label", VIDEO_WORDS.moment(clock(at)));
  const view = document.createElement("span");
  const { style } = view;
  style.width = `${width}px`;
  style.height = `${height}px`;
  style.backgroundImage = `url("${new URL(picture.sheet, base).href}")`;
  style.backgroundPosition = `-${left}px -${top}px`;
  style.zoom = String(WIDTH / width);
  const words = document.createElement("span");
  words.textContent = clock(at);
  words.className = "small";
  button.append(view, words);
  const place = document.createElement("li");
  place.append(button);
  return place;
}

/** Send what the player shows, at a moment (seconds) if one is given. */
async function sendFrame(choice: HTMLElement, moment: number | null): Promise<void> {
  const frame = document.querySelector<HTMLIFrameElement>("#player");
  const video = frame?.contentDocument?.querySelector("video");
  if (!video || (moment !== null && !(await seek(video, moment)))) {
    alarm(VIDEO_WORDS.noFrame);
    return;
  }
  if (video.readyState < HTMLMediaElement.HAVE_CURRENT_DATA || !video.videoWidth) {
    alarm(VIDEO_WORDS.noFrame);
    return;
  }
  const picture = await pictureOf(video);
  if (picture) await send(choice, picture);
  else alarm(VIDEO_WORDS.frameBlocked);
}

/** Go to a moment and wait for its picture; false if it does not come. */
async function seek(video: HTMLVideoElement, moment: number): Promise<boolean> {
  video.pause();
  const shown = new Promise<boolean>((resolve) => {
    video.addEventListener("seeked", () => resolve(true), { once: true });
    setTimeout(() => resolve(false), SEEK_MS);
  });
  video.currentTime = moment;
  return shown;
}

async function pictureOf(video: HTMLVideoElement): Promise<Blob | null> {
  const canvas = document.createElement("canvas");
  canvas.width = video.videoWidth;
  canvas.height = video.videoHeight;
  try {
    canvas.getContext("2d")?.drawImage(video, 0, 0);
    return await new Promise((resolve) => canvas.toBlob(resolve, "image/jpeg", QUALITY));
  } catch {
    return null; // media of another origin that the browser plays by itself
  }
}

async function send(choice: HTMLElement, picture: Blob): Promise<void> {
  const path = choice.dataset.poster ?? "";
  if (!(await sendPicture("PUT", path, "poster", picture, VIDEO_WORDS.posterSet))) return;
  const shown = document.querySelector<HTMLImageElement>("#poster img.poster");
  const made = URL.createObjectURL(picture);
  if (shown) shown.src = made;
  setTimeout(() => {
    URL.revokeObjectURL(made);
    document.dispatchEvent(new CustomEvent("headend:refresh", { detail: "poster" }));
  }, ANSWERED_MS);
}
