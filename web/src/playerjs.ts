/**
 * The player.js protocol 0.1 for pages that frame the player: JSON text by `postMessage`.
 *
 * Pure: what arrives and what is sent are texts. Times are seconds, volumes 0 to 100.
 */

const CONTEXT = "player.js";
const VERSION = "0.0.11"; // of the messages; the specification is 0.1

export const EVENTS = [
  "ready",
  "progress",
  "timeupdate",
  "play",
  "pause",
  "ended",
  "seeked",
  "error",
] as const;

export type EventName = (typeof EVENTS)[number];

/** What the parent page may ask for. A method named `get…` is answered. */
export interface Methods {
  play(): void;
  pause(): void;
  getPaused(): boolean;
  mute(): void;
  unmute(): void;
  getMuted(): boolean;
  setVolume(volume: unknown): void;
  getVolume(): number;
  getDuration(): number;
  setCurrentTime(seconds: unknown): void;
  getCurrentTime(): number;
  setLoop(loop: unknown): void;
  getLoop(): boolean;
}

const BAD_METHOD = 2;

// A page that adds listeners without end must not fill our memory.
const MOST_LISTENERS = 100;

/** Answers one parent page. */
export class Receiver {
  readonly #listeners: { event: string; listener: string | null }[] = [];
  #ready = false;

  constructor(
    private readonly source: string, // the address of this frame
    private readonly methods: Methods,
    private readonly send: (text: string) => void,
  ) {}

  /** Tell the parent that it may begin; without being asked, as the specification has it. */
  ready(): void {
    this.#ready = true;
    if (!this.emit("ready", this.#hello())) this.#post("ready", this.#hello(), null);
  }

  /** Send an event to all listeners; return whether there were any. */
  emit(event: EventName, value?: unknown): boolean {
    const listeners = this.#listeners.filter((each) => each.event === event);
    for (const { listener } of listeners) this.#post(event, value, listener);
    return listeners.length > 0;
  }

  /** Take a message; what is not of the protocol is passed over. */
  receive(data: unknown): void {
    const message = parsed(data);
    if (message === null) return;
    const { method, value } = message;
    const listener = typeof message["listener"] === "string" ? message["listener"] : null;
    if (method === "addEventListener") this.#add(String(value), listener);
    else if (method === "removeEventListener") this.#remove(String(value), listener);
    else if (typeof method === "string" && Object.hasOwn(this.methods, method)) {
      const answer = this.methods[method as keyof Methods](value);
      if (method.startsWith("get")) this.#post(method, answer, listener);
    } else this.emit("error", { code: BAD_METHOD, msg: `Invalid Method "${String(method)}"` });
  }

  #add(event: string, listener: string | null): void {
    const known = this.#listeners.some((one) => one.event === event && one.listener === listener);
    if (!known && this.#listeners.length < MOST_LISTENERS) {
      this.#listeners.push({ event, listener });
    }
    if (event === "ready" && this.#ready) this.#post("ready", this.#hello(), listener);
  }

  /** Without a listener's name, all listeners of the event are removed. */
  #remove(event: string, listener: string | null): void {
    for (let at = this.#listeners.length - 1; at >= 0; at -= 1) {
      const one = this.#listeners[at];
      if (one?.event === event && (listener === null || one.listener === listener)) {
        this.#listeners.splice(at, 1);
      }
    }
  }

  #hello(): object {
    const methods = [...Object.keys(this.methods), "addEventListener", "removeEventListener"];
    return { src: this.source, events: EVENTS, methods };
  }

  #post(event: string, value: unknown, listener: string | null): void {
    const named = listener === null ? {} : { listener };
    this.send(JSON.stringify({ context: CONTEXT, version: VERSION, event, value, ...named }));
  }
}

function parsed(data: unknown): Record<string, unknown> | null {
  let message = data;
  if (typeof data === "string") {
    try {
      message = JSON.parse(data);
    } catch {
      return null;
    }
  }
  if (typeof message !== "object" || message === null) return null;
  const found = message as Record<string, unknown>;
  return found["context"] === CONTEXT && "method" in found ? found : null;
}
