/** Transfers on a page: shown, and sent a few at a time. */

import { bytesText, leftText } from "./amounts";
import { call } from "./call";
import { ask } from "./confirm";
import { alarm, BASE } from "./dom";
import type { LiveEvent } from "./live";
import { type Target, Transfer, type TransferState, type VideoEvent } from "./transfer";
import { VIDEO_WORDS } from "./video_words";

// Two keep the line busy while one is being begun or ended; more only make each slower.
const AT_ONCE = 2;
// Where the web-socket is not to be had, and for reasons of failures, which no event tells.
const ASK_MS = 5000;

const COLOURS: Record<TransferState, string> = {
  waiting: "idle",
  sending: "warn",
  paused: "idle",
  broken: "bad",
  refused: "bad",
  arrived: "idle",
  making: "warn",
  ready: "good",
  failed: "bad",
};

/** How a list is set up. `room` is the path of the project's pages, without the base. */
export interface ListOptions {
  readonly room: string;
  readonly most: number; // bytes of a file
  readonly changed?: (transfers: readonly Transfer[]) => void;
  readonly done?: (transfer: Transfer) => void; // the file is there
}

/** The transfers of a page, in `list`, made of the page's template. */
export class TransferList {
  readonly #views = new Map<Transfer, Element>();

  constructor(
    readonly list: Element,
    readonly template: HTMLTemplateElement,
    readonly target: Target,
    readonly options: ListOptions,
  ) {
    setInterval(() => void this.#askAll(), ASK_MS);
    addEventListener("online", () => {
      for (const each of this.transfers) if (each.state === "broken") each.queue();
    });
  }

  get transfers(): Transfer[] {
    return [...this.#views.keys()];
  }

  /** Add files, except those that are on their way already. */
  add(files: Iterable<File>): void {
    for (const file of files) {
      const same = (each: Transfer): boolean =>
        (each.isUnfinished || each.state === "arrived") &&
        each.file.name === file.name &&
        each.file.size === file.size &&
        each.file.lastModified === file.lastModified;
      if (this.options.most && file.size > this.options.most)
        alarm(`${file.name}: ${VIDEO_WORDS.tooLarge(bytesText(this.options.most))}`);
      else if (this.transfers.some(same)) alarm(VIDEO_WORDS.again(file.name));
      else this.#show(new Transfer(file, this.target, (transfer) => this.#changed(transfer)));
    }
    this.#startNext();
  }

  /** Take in an event of a video (`headend:event`). */
  hear({ data }: LiveEvent): void {
    const event = data as VideoEvent;
    for (const each of this.transfers) {
      if (each.hash !== event.hash) continue;
      each.hear(event);
      if (each.state === "failed") void this.#ask(each);
    }
  }

  #show(transfer: Transfer): void {
    const view = this.template.content.firstElementChild?.cloneNode(true);
    if (!(view instanceof Element)) return;
    this.#views.set(transfer, view);
    this.list.append(view);
    part(view, "name").textContent = transfer.file.name;
    part(view, "bar").setAttribute("aria-label", VIDEO_WORDS.upload(transfer.file.name));
    for (const name of ["pause", "resume", "retry", "cancel", "remove"]) {
      const button = part(view, name);
      button.setAttribute("aria-label", `${button.textContent ?? ""}: ${transfer.file.name}`);
    }
    part(view, "pause").addEventListener("click", () => void transfer.pause());
    part(view, "resume").addEventListener("click", () => transfer.queue());
    part(view, "retry").addEventListener("click", () => void this.#retry(transfer));
    part(view, "cancel").addEventListener("click", () => void this.#cancel(transfer));
    part(view, "remove").addEventListener("click", () => void this.#cancel(transfer));
    this.#changed(transfer);
  }

  async #retry(transfer: Transfer): Promise<void> {
    if (transfer.state !== "failed") {
      transfer.queue();
      return;
    }
    const answer = await call("POST", `/api/videos/${transfer.video}/retry`);
    if (answer && answer.status < 300) transfer.update("queued", 0, 0, "");
    else alarm((answer?.body as { message?: string } | null)?.message ?? VIDEO_WORDS.unreachable);
  }

  async #cancel(transfer: Transfer): Promise<void> {
    const { name } = transfer.file;
    const begun = transfer.isUnfinished && transfer.sent > 0;
    if (begun && !(await ask(VIDEO_WORDS.cancel(name), VIDEO_WORDS.cancelLabel))) return;
    const view = this.#views.get(transfer);
    this.#views.delete(transfer);
    view?.remove();
    if (transfer.isUnfinished) await transfer.cancel();
    this.options.changed?.(this.transfers);
    this.#startNext();
  }

  #changed(transfer: Transfer): void {
    const view = this.#views.get(transfer);
    if (!view) return;
    render(view, transfer, this.options.room);
    if (transfer.state === "arrived" && !view.hasAttribute("data-arrived")) {
      view.setAttribute("data-arrived", "");
      this.options.done?.(transfer);
    }
    this.options.changed?.(this.transfers);
    if (transfer.state !== "sending") this.#startNext();
  }

  #startNext(): void {
    const sending = this.transfers.filter(({ state }) => state === "sending").length;
    const waiting = this.transfers.filter(({ state }) => state === "waiting");
    for (const each of waiting.slice(0, Math.max(0, AT_ONCE - sending))) void each.start();
  }

  async #askAll(): Promise<void> {
    if (document.visibilityState !== "visible") return;
    const open = ({ state }: Transfer): boolean => state === "arrived" || state === "making";
    await Promise.all(this.transfers.filter(open).map((each) => this.#ask(each)));
  }

  async #ask(transfer: Transfer): Promise<void> {
    const answer = await call("GET", `/api/videos/${transfer.video}/status`);
    if (answer?.status !== 200) return;
    const { data } = answer.body as {
      data: { state: string; progress: number; eta: number; reason: string; waits_for: string };
    };
    transfer.update(data.state, data.progress, data.eta, data.reason, data.waits_for);
  }
}

function part(view: Element, name: string): HTMLElement {
  const found = view.querySelector<HTMLElement>(`[data-part="${name}"]`);
  if (!found) throw new Error(`the template has no ${name}`);
  return found;
}

/** Show a transfer; what is the same already is not touched, so that screen readers stay quiet. */
function render(view: Element, transfer: Transfer, room: string): void {
  const { state, sent, file, reason, video } = transfer;
  const word = part(view, "state");
  set(word, VIDEO_WORDS[state]);
  word.className = `state ${COLOURS[state]}`;
  set(part(view, "detail"), detailOf(transfer));
  const bar = part(view, "bar") as HTMLProgressElement;
  bar.hidden = state === "ready" || state === "failed" || state === "refused";
  if (state === "making") bar.value = transfer.progress / 100;
  else if (state === "arrived") bar.removeAttribute("value");
  else bar.value = file.size ? sent / file.size : 0;
  const words = part(view, "reason");
  set(words, reason);
  words.hidden = reason === "";
  part(view, "pause").hidden = state !== "sending" && state !== "waiting";
  part(view, "resume").hidden = state !== "paused";
  part(view, "retry").hidden = state !== "broken" && state !== "failed";
  part(view, "cancel").hidden = !transfer.isUnfinished;
  part(view, "remove").hidden = state !== "refused";
  const open = part(view, "open") as HTMLAnchorElement;
  open.hidden = room === "" || transfer.isUnfinished || state === "refused" || video === "";
  if (!open.hidden) open.href = `${BASE}${room}/videos/${video}`;
}

function set(element: Element, text: string): void {
  if (element.textContent !== text) element.textContent = text;
}

function detailOf({ state, sent, file, rate, progress, eta, waitsFor }: Transfer): string {
  if (waitsFor && (state === "arrived" || state === "making")) return VIDEO_WORDS.waitsForLive;
  if (state === "making")
    return [VIDEO_WORDS.percent(progress), eta ? leftText(eta) : ""].filter(Boolean).join(", ");
  if (state !== "sending") return bytesText(file.size);
  const speed = rate.perSecond;
  return [
    VIDEO_WORDS.of(bytesText(sent), bytesText(file.size)),
    speed === null ? "" : VIDEO_WORDS.speed(bytesText(Math.round(speed))),
    leftText(rate.secondsFor(file.size - sent)),
  ]
    .filter(Boolean)
    .join(", ");
}
