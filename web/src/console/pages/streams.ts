/** The list of streams: actions on several of them at once. */

import { call } from "../call";
import { ask } from "../confirm";
import { alarm, closest, toast } from "../dom";
import { STREAM_WORDS as WORDS } from "../words";

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
  const count = document.getElementById("bulk-count");
  if (!bar || !count) return;
  bar.hidden = chosen.size === 0;
  count.textContent = WORDS.selected(chosen.size);
}

/** Send one request for each stream that is selected, one after the other. */
async function act(button: HTMLButtonElement): Promise<void> {
  const { bulk = "", question, agree } = button.dataset;
  const [method = "", path = ""] = bulk.split(" ");
  if (button.ariaBusy === "true") return;
  if (question && !(await ask(question, agree, button.classList.contains("danger")))) return;
  button.ariaBusy = "true";
  const failed: string[] = [];
  for (const stream of [...chosen]) {
    const reason = await send(method, path.replace("{id}", stream));
    if (reason === null) chosen.delete(stream);
    else failed.push(reason);
  }
  button.ariaBusy = null;
  if (failed.length) alarm(WORDS.someFailed(failed.length, failed[0] ?? ""));
  else toast(WORDS.done);
  show();
  document.dispatchEvent(new CustomEvent("headend:refresh", { detail: "streams" }));
}

/** Return null if it was done, and the reason otherwise. */
async function send(method: string, path: string): Promise<string | null> {
  const answer = await call(method, path);
  if (answer === null) return WORDS.unreachable;
  // What is gone already is what was wanted.
  const gone = method === "DELETE" && answer.status === 404;
  if (answer.status < 300 || gone) return null;
  const { message } = answer.body as { message?: string };
  return message ?? WORDS.unreachable;
}
