/** Links that sign in (`headend console-link`). The secret stands behind the `#`, which browsers send
 * to no server, so that no log and no `Referer` has it; the form of the page to sign in sends it. */

import { BASE } from "./dom";

/** Offer to sign in by the link that this page was opened with, if it was. */
export function bindLink(): void {
  offer();
  // A link that is opened where the page is open already does not load it anew.
  addEventListener("hashchange", offer);
}

function offer(): void {
  const secret = new URLSearchParams(location.hash.slice(1)).get("link");
  if (!secret) return;
  const form = document.querySelector<HTMLFormElement>("form[data-by]");
  if (!form) {
    // Signed in already, and so led past the page: but the link may be of another token.
    location.replace(`${BASE}/console/sign-in?by=link${location.hash}`);
    return;
  }
  const address = new URL(location.href);
  address.hash = "";
  address.searchParams.delete("by");
  // The history may be kept on other devices, too.
  history.replaceState(null, "", address);
  // Otherwise this browser may go on to another page by itself.
  form.closest<HTMLElement>("[data-resume]")?.removeAttribute("data-resume");
  document.getElementById("problem")?.remove();
  form.querySelector("[data-token]")?.remove();
  const field = form.querySelector<HTMLInputElement>("[name=link]");
  if (field) field.value = secret;
  form.querySelector<HTMLElement>("[data-link]")?.removeAttribute("hidden");
  form.querySelector("button")?.focus();
}
