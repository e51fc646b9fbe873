/** Actions: forms and buttons that send a request to the API, and show what it answers.
 *
 * `data-api="PUT /api/streams/3"` is the request. What follows is in `data-done` and `data-toast`;
 * errors are shown beside the fields that they are about. See docs/console.md.
 */

import { type Answer, call, parsed } from "./call";
import { ask } from "./confirm";
import { alarm, BASE, closest, toast } from "./dom";
import type { Json } from "./form_body";
import { bodyChanged, bodyNow, settle } from "./form_state";
import { refresh, refreshAll } from "./fragments";
import { filled } from "./template";
import { leaveUnasked } from "./unsaved";
import { WORDS } from "./words";

interface ErrorBody {
  readonly message?: string;
  readonly errors?: Record<string, string[]>;
}

/** A question, and the words of the button that agrees. */
interface Question {
  readonly question?: string | undefined;
  readonly agree?: string | undefined;
}

/** Let forms and buttons with `data-api` act. */
export function bindActions(): void {
  document.addEventListener("submit", (event) => {
    const form = closest<HTMLFormElement>(event, "form[data-api]");
    if (!form) return;
    event.preventDefault();
    void act(form);
  });
  document.addEventListener("click", (event) => {
    const button = closest<HTMLButtonElement>(event, "button[data-api]");
    if (button) void act(button);
  });
}

async function act(source: HTMLElement, overwrite = false): Promise<void> {
  const { api, version } = source.dataset;
  const [method, path] = (api ?? "").split(" ");
  if (!method || !path || source.ariaBusy === "true") return;
  const body = source instanceof HTMLFormElement ? formBody(source) : buttonBody(source);
  const danger = source.classList.contains("danger");
  const { question, agree } = questionOf(source, body);
  if (question && !overwrite && !(await ask(question, agree, danger))) return;
  clear(source);
  source.ariaBusy = "true";
  const answer = await call(method, path, body, overwrite ? undefined : version);
  source.ariaBusy = null;
  if (answer && answer.status < 300) await finish(source, answer);
  else if (answer?.status === 412) conflict(source);
  else refuse(source, answer);
}

/** Return what is to be asked first: always, or where the body chooses something of what
 * `data-asks` names.
 */
function questionOf(source: HTMLElement, body: Json | undefined): Question {
  const { confirm, confirmLabel } = source.dataset;
  if (confirm) return { question: confirm, agree: confirmLabel };
  for (const { dataset } of source.querySelectorAll<HTMLElement>("[data-asks]")) {
    const chosen = (body as Record<string, Json> | undefined)?.[dataset.asks ?? ""];
    if (Array.isArray(chosen) && chosen.length) return dataset;
  }
  return {};
}

function deletes(source: HTMLElement): boolean {
  return source.dataset.api?.startsWith("DELETE ") ?? false;
}

function formBody(form: HTMLFormElement): Json {
  return form.dataset.send === "changed" ? bodyChanged(form) : bodyNow(form);
}

function buttonBody(button: HTMLElement): Json | undefined {
  return button.dataset.body === undefined ? undefined : parsed(button.dataset.body);
}

async function finish(source: HTMLElement, answer: Answer): Promise<void> {
  const { done = "refresh", toast: words } = source.dataset;
  if (source.dataset.version && answer.version) source.dataset.version = answer.version;
  if (source instanceof HTMLFormElement) {
    source.closest("dialog")?.close();
    // What was added is among the rest from now on.
    for (const field of source.querySelectorAll<HTMLInputElement>("[data-once]")) field.value = "";
    if (source.dataset.reset === undefined) settle(source);
    else source.reset();
  }
  source.dispatchEvent(new CustomEvent("headend:done", { bubbles: true, detail: answer.body }));
  if (done.startsWith("goto:")) {
    if (deletes(source)) leaveUnasked(); // what was edited on its page is gone
    location.assign(BASE + filled(done.slice(5), answer.body));
    return;
  }
  // What a server answered, in its words.
  if (words === "{message}") toast(String((answer.body as { message?: Json }).message ?? ""));
  else if (words) toast(words);
  if (done === "reload") location.reload();
  else if (done === "refresh") await refreshAll();
  else if (done.startsWith("refresh:")) await Promise.all(done.slice(8).split(",").map(refresh));
}

/* Errors */

function clear(source: HTMLElement): void {
  source.querySelectorAll(".field-error, .form-error").forEach((old) => old.remove());
  source.querySelectorAll("[aria-invalid]").forEach((field) => {
    field.removeAttribute("aria-invalid");
    describe(field, (ids) => ids.filter((id) => !id.startsWith("error-")));
  });
}

function refuse(source: HTMLElement, answer: Answer | null): void {
  const { message, errors = {} } = (answer?.body ?? {}) as ErrorBody;
  const rest: string[] = [];
  let first: HTMLElement | null = null;
  for (const [name, texts] of Object.entries(errors)) {
    const field = fieldOf(source, name);
    if (field) {
      mark(field, name, texts.join(" "));
      first ??= field;
    } else rest.push(...texts);
  }
  const unreachable = answer === null ? WORDS.unreachable : WORDS.failed;
  const line = first && !rest.length ? null : say(source, rest.join(" ") || message || unreachable);
  // The line is announced as it is; a field is what a person goes on with.
  const shown = first ?? line;
  if (shown) goTo(shown);
}

/** Show an element wherever it is, and give it the focus, so that it is read out. */
function goTo(element: HTMLElement): void {
  for (let fold = element.closest("details"); fold; fold = fold.parentElement?.closest("details") ?? null)
    fold.open = true;
  element.focus({ preventScroll: true });
  element.scrollIntoView({ block: "center" });
}

function fieldOf(source: HTMLElement, name: string): HTMLElement | null {
  if (!(source instanceof HTMLFormElement)) return null;
  const quoted = CSS.escape(name);
  return source.querySelector(`[name="${quoted}"], [name^="${quoted}."]`);
}

function mark(field: HTMLElement, name: string, text: string): void {
  const line = document.createElement("small");
  line.id = `error-${name}-${Math.random().toString(36).slice(2, 8)}`;
  line.className = "field-error";
  line.textContent = text;
  field.after(line);
  field.setAttribute("aria-invalid", "true");
  describe(field, (ids) => [...ids, line.id]);
}

function describe(field: Element, change: (ids: string[]) => string[]): void {
  const ids = change((field.getAttribute("aria-describedby") ?? "").split(" ").filter(Boolean));
  if (ids.length) field.setAttribute("aria-describedby", ids.join(" "));
  else field.removeAttribute("aria-describedby");
}

function say(source: HTMLElement, text: string): HTMLElement | null {
  if (!(source instanceof HTMLFormElement)) {
    alarm(text);
    return null;
  }
  const line = document.createElement("p");
  line.className = "form-error";
  line.setAttribute("role", "alert");
  line.tabIndex = -1;
  source.prepend(line);
  line.append(text);
  return line;
}

/** Somebody else changed the record: a person chooses whose values count. */
function conflict(source: HTMLElement): void {
  const line = say(source, WORDS.changed);
  if (!line) return;
  line.append(
    choice(WORDS.newer, () => {
      if (source instanceof HTMLFormElement) source.reset(); // it was chosen: nothing is to be asked
      location.reload();
    }),
    choice(WORDS.overwrite, () => void act(source, true)),
  );
  goTo(line);
}

function choice(text: string, chosen: () => void): HTMLButtonElement {
  const button = document.createElement("button");
  button.type = "button";
  button.className = "secondary";
  button.textContent = text;
  button.addEventListener("click", chosen);
  return button;
}
