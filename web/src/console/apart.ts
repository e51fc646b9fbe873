/** How far the encoders of a stream are apart in the programme, as a person reads it. */

import type { Series } from "./history";
import type { Report, Slot } from "./ingest";
import { nameOf, numberOf } from "./slots";
import { APART_WORDS as WORDS } from "./words";

/** Sounds of one programme agree by so much as a rule; the service believes less, if it is unique. */
const CERTAIN = 0.6;
/** Arrivals vary by as much, and so does what is measured by them. */
const STEADY_SECONDS = 0.02;
/** Over less time, what a clock drifts by is not more than that. */
const TOLD_SECONDS = 30;
const SAME_MS = 5;
/** What viewers do not notice. */
const NOTICED_SECONDS = 0.1;
/** An encoder that has sent nothing for so long may have failed: it takes nothing over. */
const SILENT_SECONDS = 0.5;

/** Return how far an encoder is from the one that it is compared with. */
export function apartOf({ slot, alignment }: Slot, slots: readonly Slot[]): string {
  if (!alignment) {
    const isReference = slots.some((other) => other.alignment?.reference === slot);
    return isReference ? WORDS.reference : WORDS.notCompared;
  }
  const { behind_ms, reason, reference } = alignment;
  if (behind_ms === null) return WORDS.notKnown[reason ?? ""] ?? WORDS.measuring;
  return WORDS.apart(behind_ms / 1000, lower(reference), Math.abs(behind_ms) < SAME_MS);
}

/** Return how sure that is, and by what it was found; nothing where nothing is known. */
export function surenessOf({ alignment }: Slot): string {
  if (!alignment || alignment.behind_ms === null) return "";
  const { reason, confidence, method } = alignment;
  if (reason) return `${WORDS.before}${WORDS.now[reason] ?? ""}`;
  return `${confidence < CERTAIN ? WORDS.likely : WORDS.certain}, ${WORDS.by[method] ?? WORDS.compared}`;
}

/** Say in a sentence for each encoder of a chart how far it is apart, and whether that changes. */
export function driftWords({ times, slots, values }: Series, report: readonly Slot[]): string[] {
  return slots.flatMap((name, place) => {
    const slot = report.find((each) => each.slot === name);
    if (!slot || slot.alignment?.behind_ms == null) return [];
    const change = driftOf(times, values[place] ?? []);
    return [`${nameOf(name)}: ${apartOf(slot, report)}${change}.`];
  });
}

function driftOf(times: readonly number[], column: readonly (number | null)[]): string {
  const known = column.flatMap((value, place) => (value === null ? [] : [{ value, at: times[place] ?? 0 }]));
  const [first, last] = [known[0], known.at(-1)];
  if (!first || !last || last.at - first.at < TOLD_SECONDS) return "";
  const seconds = (last.value - first.value) / 1000;
  return WORDS.drift(Math.abs(seconds) < STEADY_SECONDS ? 0 : seconds, last.at - first.at);
}

/** Say what viewers will notice of a switch from the encoder on air, if they wait for `most` seconds
 * at most for one that is behind.
 */
export function switchWords({ on_air, slots }: Report, most: number): string {
  const from = slots.find(({ slot }) => slot === on_air);
  const to = from && standbyOf(from, slots);
  if (!from || !to) return WORDS.mayJump(null);
  const behind = behindOf(to, from, slots);
  if (behind === null) return WORDS.mayJump(to.seconds.keyframe_seconds.at(-1) ?? null);
  const differ = from.video?.configuration !== to.video?.configuration ? ` ${WORDS.differ}` : "";
  const name = nameOf(to.slot);
  if (behind <= NOTICED_SECONDS) return (differ ? WORDS.goesOn(name) : WORDS.nothing(name)) + differ;
  const waited = Math.min(behind, most);
  return WORDS.late(name, behind, waited, behind - waited) + differ;
}

/** Return the encoder that takes over: that with the lowest number of those that send as much. */
function standbyOf(from: Slot, slots: readonly Slot[]): Slot | undefined {
  return slots
    .filter((each) => each.slot !== from.slot && each.network.silent_seconds < SILENT_SECONDS)
    .filter((each) => !from.video || each.video)
    .sort((one, other) => numberOf(one.slot) - numberOf(other.slot))[0];
}

/** Return by how many seconds one encoder is behind another one; null if it is not known. */
function behindOf(one: Slot, other: Slot, slots: readonly Slot[]): number | null {
  const known = (each: Slot): number | null => {
    if (each.alignment) return each.alignment.behind_ms;
    return slots.some(({ alignment }) => alignment?.reference === each.slot) ? 0 : null;
  };
  const [first, second] = [known(one), known(other)];
  return first === null || second === null ? null : (first - second) / 1000;
}

function lower(slot: string): string {
  return nameOf(slot).toLowerCase();
}
