/** Asks before a page is left that has edits which were not saved: by a link, a reload, a closed tab.
 *
 * The pages of the console are documents of their own, so that the browser's question covers all ways.
 */

import { isEdited } from "./form_state";

let isAsking = true;

/** Let pages ask. */
export function bindUnsaved(): void {
  addEventListener("beforeunload", (event) => {
    if (isAsking && hasEdits()) event.preventDefault();
  });
}

/** Leave the page without a question: what could be saved there is gone. */
export function leaveUnasked(): void {
  isAsking = false;
}

function hasEdits(): boolean {
  return [...document.querySelectorAll<HTMLFormElement>("form[data-api]")].some(isEdited);
}
