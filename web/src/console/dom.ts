/** What every script of the console uses: addresses, messages, and the words of both. */

import { WORDS } from "./words";

/** The path that all addresses of the service begin with; usually empty. */
export const BASE = document.documentElement.dataset.base ?? "";

/** A page's own request to the API: no form of another page can send it. */
export const OWN = { "X-Headend-Console": "1" } as const;

const TOAST_MS = 5000;

/** Show a line at the edge of the page for some seconds; screen readers read it. */
export function toast(text: string): void {
  show("toasts", text);
}

/** Take lines away that lie on what gets the focus: who goes by keyboard sees where that is. */
export function bindToasts(): void {
  document.addEventListener("focusin", ({ target }) => {
    // What is out of sight is scrolled to after this event.
    if (target instanceof HTMLElement) requestAnimationFrame(() => uncover(target));
  });
}

function uncover(focused: HTMLElement): void {
  const one = focused.getBoundingClientRect();
  document.querySelectorAll("#toasts > *").forEach((line) => {
    const other = line.getBoundingClientRect();
    const beside = one.right <= other.left || other.right <= one.left;
    if (!beside && one.top < other.bottom && other.top < one.bottom) line.remove();
  });
}

/** Show a line about something that failed; it stays until the next one, or until it is closed. */
export function alarm(text: string): void {
  document.querySelectorAll("#alerts > *").forEach((old) => old.remove());
  const line = show("alerts", text, 0);
  const close = document.createElement("button");
  close.type = "button";
  close.className = "quiet";
  close.textContent = WORDS.close;
  close.addEventListener("click", () => line?.remove());
  line?.append(close);
}

function show(id: string, text: string, milliseconds = TOAST_MS): HTMLElement | null {
  const place = document.getElementById(id);
  if (!place) return null;
  const line = document.createElement("p");
  line.append(Object.assign(document.createElement("span"), { textContent: text }));
  place.append(line);
  if (milliseconds) setTimeout(() => line.remove(), milliseconds);
  return line;
}

/** Return the closest element to an event's target that a selector describes. */
export function closest<E extends Element = HTMLElement>(event: Event, selector: string): E | null {
  return event.target instanceof Element ? event.target.closest<E>(selector) : null;
}
