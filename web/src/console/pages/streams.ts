/** The list of streams: actions on several of them at once. */

import { changeMany } from "../bulk";
import { closest } from "../dom";
import { BULK_WORDS } from "../words";

const chosen = new Set<string>();

document.addEventListener("change", (event) => {
  const box = closest<HTMLInputElement>(event, "input[type=checkbox]");
  if (!box) return;
  if (box.id === "select-all") for (const each of boxes()) choose(each.value, box.checked);
  else if (box.name === "stream") choose(box.value, box.checked);
  else return;
  show();
});
document.addEventListener("click", (event) => {
  if (closest(event, "[data-bulk-none]")) {
    chosen.clear();
    show();
  }
  const button = closest<HTMLButtonElement>(event, "button[data-bulk]");
  if (button) void act(button);
});
// The list is fetched anew: what was selected stays so.
document.addEventListener("htmx:afterSwap", show);
show();

function boxes(): HTMLInputElement[] {
  return [...document.querySelectorAll<HTMLInputElement>("input[name=stream]")];
}

function choose(stream: string, wanted: boolean): void {
  if (wanted) chosen.add(stream);
  else chosen.delete(stream);
}

function show(): void {
  const all = boxes();
  for (const each of all) each.checked = chosen.has(each.value);
  const everything = document.getElementById("select-all");
  if (everything instanceof HTMLInputElement) {
    everything.checked = all.length > 0 && all.every((each) => each.checked);
    everything.indeterminate = !everything.checked && all.some((each) => each.checked);
  }
  const bar = document.getElementById("bulk");
  if (!bar) return;
  bar.hidden = chosen.size === 0;
  count(BULK_WORDS.selected(chosen.size, BULK_WORDS.stream));
}

async function act(button: HTMLButtonElement): Promise<void> {
  const done = await changeMany(button, [...chosen], BULK_WORDS.stream, count);
  if (done === null) return;
  for (const each of done) chosen.delete(each);
  show();
  document.dispatchEvent(new CustomEvent("headend:refresh", { detail: "streams" }));
}

function count(words: string): void {
  const line = document.getElementById("bulk-count");
  if (line) line.textContent = words;
}
