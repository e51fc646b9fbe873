/** What a form shows now, against what the page that the service sent had in it. */

import { type Control, type Json, bodyOf, changed } from "./form_body";

type Field = HTMLInputElement | HTMLSelectElement | HTMLTextAreaElement;

/** Return the body that a form describes. */
export function bodyNow(form: HTMLFormElement): Record<string, Json> {
  return bodyOf(fieldsOf(form));
}

/** Return what of it differs from what the page had. */
export function bodyChanged(form: HTMLFormElement): Record<string, Json> {
  return changed(bodyNow(form), bodyOf(fieldsOf(form).map(asSent)));
}

/** Return whether a person has begun to fill a form in. */
export function isEdited(form: HTMLFormElement): boolean {
  return Object.keys(bodyChanged(form)).length > 0;
}

/** Count what a form shows now as what the page had: it has been saved. */
export function settle(form: HTMLFormElement): void {
  for (const field of fieldsOf(form)) {
    if (field instanceof HTMLSelectElement)
      for (const option of field.options) option.defaultSelected = option.selected;
    else field.defaultValue = field.value;
    if (field instanceof HTMLInputElement) field.defaultChecked = field.checked;
  }
}

function fieldsOf(form: HTMLFormElement): Field[] {
  return [...form.elements].filter(
    (each): each is Field =>
      each instanceof HTMLInputElement ||
      each instanceof HTMLSelectElement ||
      each instanceof HTMLTextAreaElement,
  );
}

function asSent(field: Field): Control {
  const { name, type, disabled, dataset } = field;
  if (field instanceof HTMLSelectElement) {
    const options = [...field.options].map(({ value, defaultSelected }) => ({
      value,
      selected: defaultSelected,
    }));
    const first = field.multiple ? undefined : options[0];
    const chosen = options.find(({ selected }) => selected) ?? first;
    return { name, type, disabled, dataset, options, value: chosen?.value ?? "" };
  }
  const checked = field instanceof HTMLInputElement && field.defaultChecked;
  // The boxes' values are no text of a person: their default is not the attribute's business.
  const box = type === "checkbox" || type === "radio" || type === "hidden";
  const value = box ? field.value : field.defaultValue;
  return { name, type, disabled, dataset, checked, value };
}
