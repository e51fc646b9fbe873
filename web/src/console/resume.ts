/** A browser that comes from another site's link shows no cookie at first, although it is signed
 * in: the page to sign in then goes on by itself. */

import { BASE } from "./dom";

/** Go on to the page that was wanted, if this browser may see it. */
export function bindResume(): void {
  const wanted = document.querySelector<HTMLElement>("[data-resume]")?.dataset.resume;
  if (wanted) void resume(BASE + wanted);
}

async function resume(address: string): Promise<void> {
  try {
    // A redirect leads here again: this browser is not signed in.
    const response = await fetch(address, { redirect: "manual", credentials: "same-origin" });
    if (response.ok) location.replace(address);
  } catch {
    return; // the form is there
  }
}
