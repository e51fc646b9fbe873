/** Sends one request for each of several records, one after the other, and says what became of it. */

import { call } from "./call";
import { ask } from "./confirm";
import { alarm, toast } from "./dom";
import { BULK_WORDS, type Noun } from "./words";

/** What is done to each record: its request, with `{id}` in the path, and the word for it done. */
interface Deed {
  readonly request: string; // "DELETE /api/videos/{id}"
  readonly done: string; // "deleted"
}

/** Do to the records with these numbers what a button says; returns those to which it was done, or
 * null if a person would rather not.
 *
 * The button has `data-bulk` (the request), `data-deed` (the word), and `data-question` with
 * `data-agree` where it asks first; `{number}` in the question is how many there are. `tell` gets
 * the words of the progress.
 */
export async function changeMany(
  button: HTMLButtonElement,
  numbers: readonly string[],
  noun: Noun,
  tell: (words: string) => void,
): Promise<string[] | null> {
  const { bulk = "", deed = "", question, agree } = button.dataset;
  const words = question?.replace("{number}", String(numbers.length));
  if (words && !(await ask(words, agree, button.classList.contains("danger")))) return null;
  // Not earlier: a button that is disabled cannot have the focus back from the question.
  const buttons = button.parentElement?.querySelectorAll("button") ?? [];
  for (const each of buttons) each.disabled = true;
  const done = await sendAll({ request: bulk, done: deed }, numbers, noun, tell);
  for (const each of buttons) each.disabled = false;
  return done;
}

async function sendAll(
  deed: Deed,
  numbers: readonly string[],
  noun: Noun,
  tell: (words: string) => void,
): Promise<string[]> {
  const done: string[] = [];
  let refusal: string | null = null;
  for (const [at, number] of numbers.entries()) {
    tell(BULK_WORDS.changing(at + 1, numbers.length));
    const reason = await send(deed.request.replace("{id}", number));
    if (reason === null) done.push(number);
    else refusal ??= reason;
  }
  if (refusal === null) toast(BULK_WORDS.done(done.length, noun, deed.done));
  else alarm(BULK_WORDS.partly(done.length, numbers.length, noun, deed.done, refusal));
  return done;
}

/** Return null if it was done, and the reason otherwise. */
async function send(request: string): Promise<string | null> {
  const [method = "", path = ""] = request.split(" ");
  const answer = await call(method, path);
  if (answer === null) return BULK_WORDS.unreachable;
  // What is gone already is what was wanted.
  const gone = method === "DELETE" && answer.status === 404;
  if (answer.status < 300 || gone) return null;
  const { message } = (answer.body ?? {}) as { message?: string };
  return message ?? BULK_WORDS.unreachable;
}
