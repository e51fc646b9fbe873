/** Shows what an action answered once and never again, to be copied: a token, the address of a link.
 *
 * `data-shows="upload_link.address"` on a form with `data-api` says where it is in the answer; the
 * page has the dialog `#secret`.
 */

import type { Json } from "./form_body";

/** Let these forms show what they got. */
export function bindSecrets(): void {
  const dialog = document.querySelector<HTMLDialogElement>("#secret");
  const field = dialog?.querySelector("input");
  if (!dialog || !field) return;
  document.addEventListener("headend:done", (event) => {
    const path = event.target instanceof HTMLElement ? event.target.dataset.shows : undefined;
    if (path === undefined) return;
    let at: Json | undefined = (event as CustomEvent<Json>).detail;
    for (const key of path.split("."))
      at = at !== null && typeof at === "object" && !Array.isArray(at) ? at[key] : undefined;
    if (typeof at !== "string") return;
    field.value = at;
    dialog.showModal();
    field.select();
  });
  dialog.querySelector("[data-part=close]")?.addEventListener("click", () => dialog.close());
  dialog.addEventListener("close", () => {
    field.value = "";
  });
}
