/** Asks once before an action, in words that name what will happen. */

// A closed dialog tells so a moment later, and the next question must not take that for its answer.
let answered: Promise<unknown> = Promise.resolve();

/** Return whether a person agreed; `label` names the button that does it, which may be dangerous. */
export async function ask(
  text: string,
  label: string | undefined,
  danger = false,
): Promise<boolean> {
  const dialog = document.getElementById("confirm");
  if (!(dialog instanceof HTMLDialogElement) || dialog.open) return false;
  await answered;
  if (dialog.open) return false;
  const words = dialog.querySelector("#confirm-text");
  const yes = dialog.querySelector<HTMLButtonElement>('button[value="yes"]');
  if (!words || !yes) return false;
  const usual = yes.textContent;
  words.textContent = text;
  if (label) yes.textContent = label;
  yes.classList.toggle("danger", danger);
  dialog.returnValue = "no";
  const answer = new Promise<boolean>((resolve) => {
    dialog.addEventListener("close", () => resolve(dialog.returnValue === "yes"), { once: true });
  });
  answered = answer;
  dialog.showModal();
  const agreed = await answer;
  yes.textContent = usual;
  return agreed;
}

/** Let the dialog's buttons close it. */
export function bindDialogs(): void {
  document.addEventListener("click", (event) => {
    const button = event.target;
    if (button instanceof HTMLButtonElement && button.value && button.closest("#confirm"))
      button.closest("dialog")?.close(button.value);
  });
}
