/**
 * What the page shows, decided from facts alone.
 *
 * The facts are levels, looked at twice a second, so an event that never came cannot wedge the
 * page. Times are in milliseconds.
 */

/**
 * `waiting`: nothing has begun. `starting`: a run is there, no picture yet. `playing`: pictures, or
 * paused by hand. `reconnecting`: pictures stopped coming. `ended`: the run is over, the next one
 * is looked out for. `gone`: the owner took it back. `blocked`: it may not be played here.
 */
export type State =
  | "waiting"
  | "starting"
  | "playing"
  | "reconnecting"
  | "ended"
  | "gone"
  | "blocked";

/** The facts that determine the state. */
export interface Facts {
  answered: boolean; // the playlist was requested, whatever the result
  refused: "gone" | "blocked" | null; // the page itself is no longer available to this viewer
  run: string | null; // the run of the current engine
  over: boolean; // its last picture was shown, or it was over before the page loaded
  begun: boolean; // it has shown a picture
  paused: boolean; // by the viewer, or by a browser that blocks autoplay
  still: number; // how long the picture has not moved although it should
}

/** A stall of this length is shown to the viewer; hls.js closes shorter gaps. */
export const STALLED = 3_000;

/** An engine without a picture for this long is replaced. */
export const WEDGED = 15_000;

/** Return what to show. */
export function decide(facts: Facts): State {
  if (facts.refused !== null) return facts.refused;
  if (facts.run === null) return facts.answered ? "waiting" : "starting";
  if (facts.over) return "ended";
  if (facts.paused && facts.begun) return "playing";
  if (facts.still < STALLED) return facts.begun ? "playing" : "starting";
  // The first picture takes longer: the newest segment has to load completely.
  return facts.begun || facts.still >= WEDGED / 2 ? "reconnecting" : "starting";
}

/**
 * Return how long to wait before the playlist is asked for again, or null: not at all.
 *
 * `trouble`: the engine gave up, though its buffer may still play. `asked`: how often already in
 * this state. `random`: from 0 to 1.
 */
export function pollAfter(
  state: State,
  trouble: boolean,
  asked: number,
  random: number,
): number | null {
  if ((state === "playing" || state === "starting") && !trouble) return null;
  // About 2 s at first, a tenth slower each time, 6 s at most. The spread keeps a thousand
  // waiting viewers from polling at the same moment.
  const refused = state === "gone" || state === "blocked";
  const pause = refused ? 15_000 : Math.min(2_000 * 1.1 ** asked, 6_000);
  return pause * (0.8 + 0.4 * random);
}
