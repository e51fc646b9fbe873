/** Search fields that hide the choices of a long list which do not match: `data-filters="#id"`. */

/** Let them work. What is chosen stays shown. */
export function bindFilters(): void {
  document.addEventListener("input", (event) => {
    const field = event.target;
    if (!(field instanceof HTMLInputElement) || field.dataset.filters === undefined) return;
    const wanted = folded(field.value);
    document.querySelectorAll<HTMLElement>(`${field.dataset.filters} > label`).forEach((label) => {
      const chosen = label.querySelector<HTMLInputElement>("input")?.checked === true;
      label.hidden = !chosen && !folded(label.textContent ?? "").includes(wanted);
    });
  });
  // Enter in such a field searches, and does not save the form around it.
  document.addEventListener("keydown", (event) => {
    const field = event.target;
    if (event.key === "Enter" && field instanceof HTMLElement && field.dataset.filters !== undefined)
      event.preventDefault();
  });
}

function folded(text: string): string {
  return text.normalize("NFKD").replace(/\p{M}/gu, "").toLowerCase().trim();
}
