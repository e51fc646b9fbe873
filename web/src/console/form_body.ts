/** Reads a form as the JSON body of a request to the API.
 *
 * The name of a control is the key, dots lead into objects (`failover.mode`). `data-type` says what
 * a value is: `text` (the default), `number`, `boolean`, `list` (of texts), `numbers` or `named`
 * (texts as objects with a name); an empty text is sent as null with `data-empty="null"`, and not at
 * all with `data-empty="omit"`.
 */

export type Json = null | boolean | number | string | Json[] | { [key: string]: Json };

/** What is read of a control: the elements of a form are controls, and so is what a test makes. */
export interface Control {
  readonly name: string;
  readonly type: string;
  readonly value: string;
  readonly disabled?: boolean;
  readonly checked?: boolean;
  readonly options?: Iterable<{ readonly value: string; readonly selected: boolean }>;
  readonly dataset: { readonly type?: string; readonly empty?: string };
}

const LISTS = new Set(["list", "numbers", "named"]);
const WITHOUT_VALUE = new Set(["submit", "button", "reset", "image", "file"]);

/** Return the body that controls describe. */
export function bodyOf(controls: Iterable<Control>): Record<string, Json> {
  const body: Record<string, Json> = {};
  for (const control of controls) {
    if (!control.name || control.disabled || WITHOUT_VALUE.has(control.type)) continue;
    const value = valueOf(control);
    if (value !== undefined) put(body, control.name.split("."), value, isList(control));
  }
  return body;
}

/** Return the keys of a body whose values differ from those of another one. */
export function changed(
  body: Record<string, Json>,
  before: Record<string, Json>,
): Record<string, Json> {
  return Object.fromEntries(
    Object.entries(body).filter(([key, value]) => !isSame(value, before[key])),
  );
}

function isSame(one: Json, other: Json | undefined): boolean {
  return JSON.stringify(one) === JSON.stringify(other);
}

function isList(control: Control): boolean {
  return LISTS.has(control.dataset.type ?? "");
}

/** Return undefined for what is not sent. A list's control returns the part that it adds. */
function valueOf(control: Control): Json | undefined {
  const kind = control.dataset.type ?? "text";
  const box = control.type === "checkbox" || control.type === "radio";
  if (isList(control)) {
    const texts = chosen(control, box);
    if (kind === "named") return texts.map((name) => ({ name }));
    return kind === "numbers" ? texts.map(Number) : texts;
  }
  if (kind === "boolean" && box) return control.checked === true;
  if (box && !control.checked) return undefined;
  const text = control.value;
  if (text === "") {
    if (control.dataset.empty === "omit") return undefined;
    if (control.dataset.empty === "null" || kind === "number") return null;
  }
  if (kind === "boolean") return text === "true";
  return kind === "number" ? Number(text) : text;
}

function chosen(control: Control, box: boolean): string[] {
  if (box) return control.checked ? [control.value] : [];
  if (control.options)
    return [...control.options].filter((option) => option.selected).map((option) => option.value);
  return control.value
    .split(/[,\n]/)
    .map((text) => text.trim())
    .filter(Boolean);
}

function put(
  body: Record<string, Json>,
  path: readonly string[],
  value: Json,
  adds: boolean,
): void {
  const [key, ...rest] = path;
  if (key === undefined) return;
  const there = body[key];
  if (rest.length) {
    const inner =
      there !== null && typeof there === "object" && !Array.isArray(there) ? there : {};
    body[key] = inner;
    put(inner, rest, value, adds);
  } else if (adds && Array.isArray(there) && Array.isArray(value)) body[key] = [...there, ...value];
  else body[key] = value;
}
