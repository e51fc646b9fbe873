/** Keeps pages current: by events of the web-socket, and by asking again where there are none.
 *
 * `data-live="stream.HASH video.HASH"` on a fragment names what it shows: it is fetched anew with
 * each event of these channels. `data-poll="3"` on a fragment, or on something inside it, fetches it
 * every so many seconds while the page is visible. Events also arrive at the element itself, as `headend:event`.
 */

import Pusher from "pusher-js";

import { BASE, OWN, toast } from "./dom";
import { refresh } from "./fragments";
import { WORDS } from "./words";

/** The detail of `headend:event`. */
export interface LiveEvent {
  readonly channel: string;
  readonly event: string;
  readonly data: unknown;
}

const TICK_MS = 1000;
// Events come in bursts: one request answers all of a moment.
const TOGETHER_MS = 250;

const waiting = new Map<string, number>();

/** Connect if the page shows anything live, and poll what wants it. */
export function bindLive(): void {
  if (document.querySelector("[data-live]")) connect();
  const asked = new WeakMap<Element, number>();
  setInterval(() => {
    if (document.visibilityState !== "visible") return;
    const now = performance.now();
    document.querySelectorAll<HTMLElement>("[data-poll]").forEach((each) => {
      const due = (asked.get(each) ?? now) + Number(each.dataset.poll) * 1000;
      if (!asked.has(each)) asked.set(each, now);
      if (now < due) return;
      asked.set(each, now);
      const fragment = each.closest("[data-fragment][id]");
      if (fragment) void refresh(fragment.id);
    });
  }, TICK_MS);
}

function connect(): void {
  const key = document.documentElement.dataset.broadcaster ?? "";
  const secure = location.protocol === "https:";
  const port = Number(location.port) || (secure ? 443 : 80);
  const pusher = new Pusher(key, {
    cluster: "headend",
    wsHost: location.hostname,
    wsPort: port,
    wssPort: port,
    wsPath: BASE,
    forceTLS: secure,
    // Never to another provider.
    enabledTransports: ["ws", "wss"],
    disableStats: true,
    channelAuthorization: {
      transport: "ajax",
      endpoint: `${BASE}/broadcasting/auth`,
      headers: { ...OWN },
    },
  });
  follow(pusher);
  let lost = false;
  pusher.connection.bind("unavailable", () => {
    if (!lost) toast(WORDS.lost);
    lost = true;
  });
  pusher.connection.bind("connected", () => {
    if (lost) toast(WORDS.back);
    lost = false;
  });
  document.addEventListener("htmx:afterSwap", () => follow(pusher));
}

/** Subscribe to what the page shows now, and to nothing else. */
function follow(pusher: Pusher): void {
  const wanted = new Set([...document.querySelectorAll<HTMLElement>("[data-live]")].flatMap(named));
  for (const { name } of pusher.allChannels())
    if (!wanted.has(name.replace("private-", ""))) pusher.unsubscribe(name);
  for (const name of wanted) {
    if (pusher.channel(`private-${name}`)) continue;
    const channel = pusher.subscribe(`private-${name}`);
    channel.bind_global((event: string, data: unknown) => {
      if (!event.startsWith("pusher")) deliver(name, event, data);
    });
    channel.bind("pusher:subscription_error", () => {
      if (channel.subscribed) {
        // The session has ended: another tab may have begun a newer one.
        pusher.unsubscribe(channel.name);
        follow(pusher);
      } else refreshShowing(name); // leads to the page to sign in, if it must
    });
    // Also after each reconnection: what happened meanwhile has no event.
    channel.bind("pusher:subscription_succeeded", () => refreshShowing(name));
  }
}

function named(element: HTMLElement): string[] {
  return (element.dataset.live ?? "").split(/\s+/).filter(Boolean);
}

function deliver(channel: string, event: string, data: unknown): void {
  const detail: LiveEvent = { channel, event, data };
  for (const each of showing(channel)) each.dispatchEvent(new CustomEvent("headend:event", { detail }));
  refreshShowing(channel);
}

function showing(channel: string): HTMLElement[] {
  const all = [...document.querySelectorAll<HTMLElement>("[data-live]")];
  return all.filter((each) => named(each).includes(channel));
}

function refreshShowing(channel: string): void {
  for (const { id, dataset } of showing(channel)) {
    if (!id || dataset.fragment === undefined || waiting.has(id)) continue;
    waiting.set(
      id,
      window.setTimeout(() => {
        waiting.delete(id);
        void refresh(id);
      }, TOGETHER_MS),
    );
  }
}
