/** Fields with a button: `data-copy="#id"` copies what is shown, `data-reveal="#id"` shows a secret.
 *
 * `data-open="#id"` opens a dialog.
 */

import { closest, toast, alarm } from "./dom";
import { WORDS } from "./words";

/** Let these buttons work. */
export function bindFields(): void {
  document.addEventListener("click", (event) => {
    const button = closest(event, "button[data-copy], button[data-reveal], button[data-open]");
    if (!button) return;
    const { copy, reveal, open } = button.dataset;
    const field = document.querySelector<HTMLElement>(copy ?? reveal ?? open ?? "");
    if (!field) return;
    if (copy !== undefined) void copied(field);
    else if (reveal !== undefined) toggle(button, field);
    else if (field instanceof HTMLDialogElement) field.showModal();
  });
}

async function copied(field: HTMLElement): Promise<void> {
  const text = "value" in field ? String(field.value) : (field.textContent ?? "");
  try {
    await navigator.clipboard.writeText(text.trim());
    toast(WORDS.copied);
  } catch {
    if (copiedByHand(field)) toast(WORDS.copied);
    else alarm(WORDS.notCopied);
  }
}

/** Select the text and copy it: over plain http there is no clipboard for scripts. */
function copiedByHand(field: HTMLElement): boolean {
  if (!(field instanceof HTMLInputElement || field instanceof HTMLTextAreaElement)) {
    getSelection()?.selectAllChildren(field);
    return document.execCommand("copy");
  }
  const { type } = field;
  if (field instanceof HTMLInputElement) field.type = "text";
  field.select();
  const done = document.execCommand("copy");
  if (field instanceof HTMLInputElement) field.type = type;
  return done;
}

function toggle(button: HTMLElement, field: HTMLElement): void {
  if (!(field instanceof HTMLInputElement)) return;
  const hidden = field.type === "password";
  field.type = hidden ? "text" : "password";
  button.textContent = hidden ? WORDS.hide : WORDS.reveal;
  button.ariaPressed = String(hidden);
}
