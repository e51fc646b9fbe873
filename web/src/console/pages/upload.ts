/** The page to bring videos in: files dropped or chosen, each shown on its way. */

import type { LiveEvent } from "../live";
import { bindSecrets } from "../secret";
import type { Transfer } from "../transfer";
import { TransferList } from "../transfer_list";
import { showUnfinished } from "../unfinished";
import { VIDEO_WORDS } from "../video_words";

bindSecrets();

const drop = document.getElementById("drop");
const input = document.querySelector<HTMLInputElement>("#files");
const section = document.getElementById("transfers");
const template = document.querySelector<HTMLTemplateElement>("#transfer");
const list = section?.querySelector("[data-part=list]");
if (drop && input && section && template && list) bind(drop, input, section, template, list);

function bind(
  drop: HTMLElement,
  input: HTMLInputElement,
  section: HTMLElement,
  template: HTMLTemplateElement,
  list: Element,
): void {
  const endpoint = drop.dataset.uploads ?? "";
  const transfers = new TransferList(list, template, { endpoint }, {
    room: drop.dataset.room ?? "",
    most: Number(drop.dataset.most),
    changed: (all) => count(section, all),
  });
  const add = (files: Iterable<File>): void => {
    transfers.add(files);
    section.hidden = transfers.transfers.length === 0;
    void unfinished(endpoint, transfers);
  };
  input.addEventListener("change", () => {
    add([...(input.files ?? [])]);
    input.value = ""; // the same file may be chosen again
  });
  bindDrop(drop, add);
  section.addEventListener("headend:event", (event) => {
    transfers.hear((event as CustomEvent<LiveEvent>).detail);
  });
  void unfinished(endpoint, transfers);
  // It could go on later, but a person who leaves by mistake would not know.
  addEventListener("beforeunload", (event) => {
    if (transfers.transfers.some(({ state }) => state === "sending")) event.preventDefault();
  });
}

async function unfinished(endpoint: string, { transfers }: TransferList): Promise<void> {
  const place = document.getElementById("unfinished");
  const template = document.querySelector<HTMLTemplateElement>("#unfinished-upload");
  if (place && template) await showUnfinished(place, template, endpoint, transfers);
}

function count(section: HTMLElement, all: readonly Transfer[]): void {
  const line = section.querySelector("[data-part=total]");
  const done = all.filter((each) => !each.isUnfinished && each.state !== "refused").length;
  const text = VIDEO_WORDS.total(done, all.length);
  if (line && line.textContent !== text) line.textContent = text;
  section.hidden = all.length === 0;
}

/** A file that misses the place would replace the page, and end every upload. */
function bindDrop(drop: HTMLElement, add: (files: Iterable<File>) => void): void {
  const hasFiles = (event: DragEvent): boolean => event.dataTransfer?.types.includes("Files") ?? false;
  document.addEventListener("dragover", (event) => {
    if (!hasFiles(event)) return;
    event.preventDefault();
    drop.classList.add("over");
  });
  document.addEventListener("dragleave", (event) => {
    if (event.relatedTarget === null) drop.classList.remove("over");
  });
  document.addEventListener("drop", (event) => {
    if (!hasFiles(event)) return;
    event.preventDefault();
    drop.classList.remove("over");
    add([...(event.dataTransfer?.files ?? [])]);
  });
}
