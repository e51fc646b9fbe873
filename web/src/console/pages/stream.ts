/** The room of a stream: charts and figures of its encoders, the result of a drill, the embed preview. */

import { driftWords, switchWords } from "../apart";
import { around, Chart, fromZero } from "../charts";
import { toast } from "../dom";
import { bindFilters } from "../filter";
import { figuresOf, remarkOf, verdictOf } from "../figures";
import { History, type Quantity } from "../history";
import { fetchReport, type Report } from "../ingest";
import { sendPicture } from "../send_file";
import { nameOf } from "../slots";
import { STREAM_WORDS as WORDS } from "../words";

const TICK_MS = 500;
const POLL_MS = 2000;
const RETRY_MS = 5000;
/** By what values are divided: bits are shown as megabits, milliseconds as seconds. */
const SCALES: Readonly<Record<Quantity, number>> = {
  bit_rates: 1e6,
  frames: 1,
  keyframe_seconds: 1,
  behind_ms: 1000,
};

interface Drilled {
  readonly drill?: {
    readonly to: string;
    readonly gap_ms: number;
    readonly switched_after_ms: number;
  };
}

const stream = document.getElementById("room")?.dataset.stream;
if (stream) bindHealth(stream);
bindDrill();
bindEmbed();
bindSlate();
bindFilters();

/** Ask for measurements while encoders send and the page is visible, and show them. */
function bindHealth(number: string): void {
  const history = new History();
  const charts = new Map<Quantity, Chart>();
  let latest: Report | null = null;
  let asked = 0;
  let pause = 0;
  let asking = false;

  async function poll(): Promise<void> {
    asking = true;
    const report = await fetchReport(number);
    asking = false;
    asked = performance.now();
    pause = report ? POLL_MS : RETRY_MS;
    note(report ? "" : WORDS.unmeasured);
    if (!report) return;
    latest = report;
    markSilent(report);
    history.add(report.slots, Date.now() / 1000);
    show(report);
    const health = document.getElementById("health");
    if (!health || !history.slots.length) return;
    // A chart has the width of its place, which it must have before.
    health.hidden = false;
    draw();
  }

  function draw(): void {
    document.querySelectorAll<HTMLElement>("[data-chart]").forEach((place) => {
      const quantity = place.dataset.chart as Quantity;
      const series = history.series(quantity);
      if (quantity === "behind_ms") {
        const figure = place.closest("figure");
        if (figure) figure.hidden = !series.slots.length;
        if (!series.slots.length) return;
        list(document.getElementById("apart-words"), driftWords(series, latest?.slots ?? []));
      }
      const range = quantity === "behind_ms" ? around : fromZero;
      const chart = charts.get(quantity) ?? new Chart(place, SCALES[quantity], range);
      charts.set(quantity, chart);
      chart.draw(series);
    });
  }

  setInterval(() => {
    const measured = document.querySelector("[data-measured]") !== null;
    if (!measured || asking || document.visibilityState !== "visible") return;
    if (performance.now() - asked >= pause) void poll();
  }, TICK_MS);
  // A fragment comes without figures, and those of the last report may be those of a lost encoder.
  document.addEventListener("htmx:afterSwap", (event) => {
    if (latest) show(latest);
    if ((event.target as Element | null)?.id === "slots") pause = 0;
  });
}

/** Tell encoders that are connected and send nothing from those that are not there. */
function markSilent({ slots }: Report): void {
  document.querySelectorAll<HTMLElement>("[data-away]").forEach((chip) => {
    const isSilent = slots.some(({ slot }) => slot === chip.dataset.away);
    chip.className = isSilent ? "state bad" : "state idle";
    const text = isSilent ? WORDS.silent : WORDS.away;
    if (chip.textContent !== text) chip.textContent = text;
  });
}

/** Fill the elements that the page has for the figures of each encoder. */
function show(report: Report): void {
  for (const slot of report.slots) {
    for (const [name, text] of Object.entries(figuresOf(slot, report.slots)))
      write(`[data-slot="${slot.slot}"] [data-figure="${name}"]`, text);
    const verdict = document.querySelector<HTMLElement>(`[data-verdict="${slot.slot}"]`);
    if (verdict) {
      const { tone, text } = verdictOf(slot);
      verdict.className = `verdict state ${tone}`;
      verdict.hidden = false;
      if (verdict.textContent !== text) verdict.textContent = text;
    }
    const shows = document.querySelector<HTMLElement>(`[data-shows="${slot.slot}"]`);
    if (shows) {
      const remark = remarkOf(slot);
      shows.hidden = !remark;
      if (shows.textContent !== remark) shows.textContent = remark;
    }
    list(document.querySelector(`[data-advice="${slot.slot}"]`), slot.advice);
  }
  list(document.getElementById("advice-all"), report.advice);
  const button = document.querySelector<HTMLElement>("[data-drill][data-wait]");
  if (!button) return;
  const { drill = "", wait } = button.dataset;
  button.dataset.confirm = `${drill} ${switchWords(report, Number(wait))}`;
}

function write(selector: string, text: string): void {
  const element = document.querySelector(selector);
  if (element && element.textContent !== text) element.textContent = text;
}

function list(element: Element | null, sentences: readonly string[]): void {
  const shown = [...(element?.children ?? [])].map((each) => each.textContent);
  if (!element || shown.join("\n") === sentences.join("\n")) return;
  element.replaceChildren(
    ...sentences.map((text) => Object.assign(document.createElement("li"), { textContent: text })),
  );
}

function note(text: string): void {
  const line = document.getElementById("health-note");
  if (!line || line.textContent === text) return;
  line.textContent = text;
  line.hidden = !text;
}

/** Say what a drill measured; the API answers with it. */
function bindDrill(): void {
  document.addEventListener("headend:done", (event) => {
    const { target } = event;
    if (!(target instanceof HTMLElement) || target.dataset.drill === undefined) return;
    const { drill } = (event as CustomEvent<Drilled>).detail;
    const line = document.getElementById("drill-result");
    if (!drill || !line) return;
    line.textContent = WORDS.drilled(nameOf(drill.to), drill.switched_after_ms, drill.gap_ms);
    line.hidden = false;
    toast(line.textContent);
  });
}

/** Show what a page that embeds the stream shows, in several widths, while the part is open. */
function bindEmbed(): void {
  const part = document.getElementById("embed-preview");
  const place = document.getElementById("embed-place");
  const width = document.getElementById("embed-width");
  if (!(part instanceof HTMLDetailsElement) || !(width instanceof HTMLSelectElement) || !place)
    return;
  part.addEventListener("toggle", () => {
    place.replaceChildren(...(part.open ? [frame(part.dataset.frame ?? "")] : []));
  });
  width.addEventListener("change", () => {
    place.style.width = width.value;
  });
}

function frame(address: string): HTMLIFrameElement {
  const made = document.createElement("iframe");
  made.className = "preview";
  made.title = WORDS.embedded;
  made.allow = "autoplay; fullscreen; picture-in-picture; encrypted-media";
  made.src = address;
  return made;
}

/** Send a picture for the slate as soon as it is chosen. */
function bindSlate(): void {
  document.addEventListener("change", (event) => {
    const input = event.target;
    if (!(input instanceof HTMLInputElement) || input.dataset.slate === undefined) return;
    const picture = input.files?.[0];
    input.value = "";
    if (picture) void sendSlate(input.dataset.slate, picture);
  });
}

async function sendSlate(path: string, picture: File): Promise<void> {
  await sendPicture("PUT", path, "picture", picture, WORDS.pictureSet);
  document.dispatchEvent(new CustomEvent("headend:refresh", { detail: "settings" }));
}
