/** The list of videos: many are selected, and changed one after another. */

import { changeMany } from "../bulk";
import { BULK_WORDS } from "../words";

const chosen = new Set<string>();
const bar = document.getElementById("chosen");
const list = document.getElementById("videos");
if (bar && list) bind(bar, list);

function bind(bar: HTMLElement, list: HTMLElement): void {
  list.addEventListener("change", (event) => {
    const box = event.target;
    if (!(box instanceof HTMLInputElement)) return;
    const all = box.dataset.pickAll !== undefined;
    for (const { dataset } of all ? boxes(list) : [box]) {
      if (dataset.pick === undefined) continue;
      if (box.checked) chosen.add(dataset.pick);
      else chosen.delete(dataset.pick);
    }
    mark(list);
    show(bar);
  });
  // A refresh brings the boxes as the server makes them, and leaves out what was deleted.
  document.addEventListener("htmx:afterSwap", () => {
    const there = new Set(boxes(list).map(({ dataset }) => dataset.pick));
    for (const each of chosen) if (!there.has(each)) chosen.delete(each);
    mark(list);
    show(bar);
  });
  bar.addEventListener("click", (event) => {
    const button = event.target;
    if (!(button instanceof HTMLButtonElement)) return;
    if (button.dataset.part === "none") {
      chosen.clear();
      mark(list);
      show(bar);
    } else if (button.dataset.bulk !== undefined) void changeAll(button, bar);
  });
  // Some browsers remember the boxes of a page that is loaded again.
  for (const box of boxes(list)) if (box.checked && box.dataset.pick) chosen.add(box.dataset.pick);
  show(bar);
}

function boxes(list: HTMLElement): HTMLInputElement[] {
  return [...list.querySelectorAll<HTMLInputElement>("input[data-pick]")];
}

function mark(list: HTMLElement): void {
  const all = boxes(list);
  for (const box of all) box.checked = chosen.has(box.dataset.pick ?? "");
  const whole = list.querySelector<HTMLInputElement>("[data-pick-all]");
  if (whole) whole.checked = all.length > 0 && all.every(({ checked }) => checked);
}

function show(bar: HTMLElement): void {
  bar.hidden = chosen.size === 0;
  count(bar, BULK_WORDS.selected(chosen.size, BULK_WORDS.video));
}

function count(bar: HTMLElement, text: string): void {
  const line = bar.querySelector("[data-part=count]");
  if (line && line.textContent !== text) line.textContent = text;
}

async function changeAll(button: HTMLButtonElement, bar: HTMLElement): Promise<void> {
  const done = await changeMany(button, [...chosen], BULK_WORDS.video, (words) => count(bar, words));
  if (done === null) return;
  // What was refused stays selected: the next action may be for just that.
  for (const each of done) chosen.delete(each);
  show(bar);
  document.dispatchEvent(new CustomEvent("headend:refresh"));
}
