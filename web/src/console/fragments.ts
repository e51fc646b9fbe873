/** Fragments: parts of a page that are fetched anew from the page's own address.
 *
 * They are elements with an id and `data-fragment`. Their content is morphed, so that focus, open
 * details, frames and what a person types stay. A form that a person is filling in is left alone.
 */

import htmx from "htmx.org";
import { Idiomorph } from "idiomorph";

import { isEdited } from "./form_state";

const pending = new Map<string, Promise<void>>();
const again = new Set<string>();

/** Teach htmx to morph: `hx-swap="morph:innerHTML"`.
 *
 * Scripts of single pages, which are bundles of their own, ask by the event `headend:refresh`, whose
 * detail is a fragment's id, or nothing for all.
 */
export function bindFragments(): void {
  document.addEventListener("headend:refresh", (event) => {
    const id = (event as CustomEvent<string | null>).detail;
    void (id ? refresh(id) : refreshAll());
  });
  document.addEventListener("htmx:beforeSwap", discardIfOutdated);
  htmx.defineExtension("morph", {
    isInlineSwap: (style) => style === "morph" || style === "morph:outerHTML",
    handleSwap(style, target, fragment) {
      if (!style.startsWith("morph") || !(target instanceof Element)) return false;
      const morphStyle = style === "morph:innerHTML" ? "innerHTML" : "outerHTML";
      const nodes = [...(fragment as DocumentFragment).childNodes];
      const found = Idiomorph.morph(target, nodes, {
        morphStyle,
        ignoreActiveValue: holdsValue(document.activeElement),
        callbacks: { beforeNodeMorphed },
      });
      return Array.isArray(found) ? found : [];
    },
  });
}

/** Discard what was fetched for an address that the page has left since, by a search for example. */
function discardIfOutdated(event: Event): void {
  const { detail } = event as CustomEvent<{ shouldSwap: boolean; requestConfig: Requested }>;
  const { elt, path } = detail.requestConfig;
  if (elt instanceof HTMLElement && elt.dataset.fragment !== undefined && path !== shownAddress())
    detail.shouldSwap = false;
}

/** The request that htmx answers: the element that made it, and the address. */
interface Requested {
  readonly elt: unknown;
  readonly path: string;
}

function shownAddress(): string {
  return location.pathname + location.search;
}

/** Return whether a person may be entering something there; a button's label is morphed all the same. */
function holdsValue(element: Element | null): boolean {
  return (
    element instanceof HTMLInputElement ||
    element instanceof HTMLTextAreaElement ||
    element instanceof HTMLSelectElement
  );
}

function beforeNodeMorphed(old: Node): boolean {
  return !(old instanceof HTMLFormElement && isBeingFilled(old));
}

function isBeingFilled(form: HTMLFormElement): boolean {
  return form.ariaBusy === "true" || (form.dataset.api !== undefined && isEdited(form));
}

/** Fetch a fragment anew.
 *
 * If it is being fetched, or the page's address changes meanwhile, it is fetched once more.
 */
export async function refresh(id: string): Promise<void> {
  const running = pending.get(id);
  if (running) {
    again.add(id);
    return running;
  }
  const fetching = fetchUntilQuiet(id);
  pending.set(id, fetching);
  try {
    await fetching;
  } finally {
    pending.delete(id);
  }
}

async function fetchUntilQuiet(id: string): Promise<void> {
  let address: string;
  do {
    again.delete(id);
    const target = document.getElementById(id);
    if (!target) return;
    address = shownAddress();
    try {
      await htmx.ajax("get", address, { target, source: target, swap: "morph:innerHTML" });
    } catch {
      return; // what is shown stays; whoever asked asks again
    }
  } while (again.has(id) || address !== shownAddress());
}

/** Fetch every fragment of the page anew. */
export async function refreshAll(): Promise<void> {
  const all = document.querySelectorAll<HTMLElement>("[data-fragment][id]");
  await Promise.all([...all].map((each) => refresh(each.id)));
}
