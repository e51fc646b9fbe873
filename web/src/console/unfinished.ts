/** Uploads that an earlier visit left unfinished: shown, so that their files are chosen again. */

import * as tus from "tus-js-client";

import { bytesText } from "./amounts";
import { BASE, OWN } from "./dom";
import { here, type Transfer } from "./transfer";
import { VIDEO_WORDS } from "./video_words";

const BEGUN = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "short" });

/** Show in `section` what is unfinished of a project's uploads and not in a list already. */
export async function showUnfinished(
  section: HTMLElement,
  template: HTMLTemplateElement,
  endpoint: string,
  transfers: readonly Transfer[],
): Promise<void> {
  const list = section.querySelector("[data-part=list]");
  if (!list) return;
  const left = (await tus.defaultOptions.urlStorage.findAllUploads()).filter(
    (each) =>
      isBelow(each.uploadUrl, endpoint) &&
      !each.metadata["replaces"] &&
      !transfers.some(({ file }) => file.name === each.metadata["filename"] && file.size === each.size),
  );
  list.replaceChildren(...left.map((each) => row(each, template, section)));
  section.hidden = left.length === 0;
}

function isBelow(url: string | null, endpoint: string): boolean {
  return url !== null && new URL(url, location.href).pathname.startsWith(`${BASE}${endpoint}/`);
}

function row(
  left: tus.PreviousUpload,
  template: HTMLTemplateElement,
  section: HTMLElement,
): Node {
  const view = template.content.cloneNode(true) as DocumentFragment;
  const fill = (name: string, text: string): void => {
    const place = view.querySelector(`[data-part="${name}"]`);
    if (place) place.textContent = text;
  };
  const name = left.metadata["filename"] ?? "";
  fill("name", name);
  const begun = VIDEO_WORDS.begun(BEGUN.format(new Date(left.creationTime)));
  fill("detail", [left.size === null ? "" : bytesText(left.size), begun].filter(Boolean).join(", "));
  const item = view.firstElementChild;
  const button = view.querySelector("[data-part=forget]");
  button?.setAttribute("aria-label", `${button.textContent ?? ""}: ${name}`);
  button?.addEventListener("click", () => {
    void forget(left);
    item?.remove();
    section.hidden = section.querySelector("li") === null;
  });
  return view;
}

async function forget(left: tus.PreviousUpload): Promise<void> {
  await tus.defaultOptions.urlStorage.removeUpload(left.urlStorageKey);
  if (left.uploadUrl === null) return;
  try {
    const headers = { ...OWN, "Tus-Resumable": "1.0.0" };
    await fetch(here(left.uploadUrl), { method: "DELETE", headers, credentials: "same-origin" });
  } catch {
    // It ends by itself, a day after its last byte.
  }
}
