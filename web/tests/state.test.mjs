import assert from "node:assert/strict";
import { test } from "node:test";

import { decide, pollAfter, STALLED, WEDGED } from "../src/state.ts";

const MOVING = {
  answered: true,
  refused: null,
  run: "one",
  over: false,
  begun: true,
  paused: false,
  still: 0,
};

const TABLE = [
  ["nothing is known yet", { run: null, begun: false, answered: false }, "starting"],
  ["no run has begun", { run: null, begun: false }, "waiting"],
  ["a run is there, no picture yet", { begun: false }, "starting"],
  ["a first picture takes its time", { begun: false, still: STALLED }, "starting"],
  ["a first picture that does not come", { begun: false, still: WEDGED / 2 }, "reconnecting"],
  ["pictures move", {}, "playing"],
  ["a short gap is no news", { still: STALLED - 1 }, "playing"],
  ["a gap that lasts", { still: STALLED }, "reconnecting"],
  ["paused by hand, however long", { paused: true, still: 10 * WEDGED }, "playing"],
  ["shown to the end", { over: true, paused: true, still: WEDGED }, "ended"],
  ["over before we came", { over: true, begun: false }, "ended"],
  ["taken back while it plays", { refused: "gone" }, "gone"],
  ["not for this country any more", { refused: "blocked" }, "blocked"],
  ["taken back before it began", { refused: "gone", run: null, begun: false }, "gone"],
];

for (const [name, facts, state] of TABLE) {
  test(`${name}: ${state}`, () => assert.equal(decide({ ...MOVING, ...facts }), state));
}

test("the playlist is not requested while it plays", () => {
  assert.equal(pollAfter("playing", false, 0, 0.5), null);
  assert.equal(pollAfter("starting", false, 0, 0.5), null);
});

test("an engine that gave up is asked for at once, though its buffer still plays", () => {
  assert.equal(pollAfter("playing", true, 0, 0.5), 2_000);
});

test("waiting viewers ask every two seconds at first, and never slower than eight", () => {
  assert.equal(pollAfter("waiting", false, 0, 0.5), 2_000);
  assert.ok(pollAfter("waiting", false, 10_000, 1) <= 8_000);
});

test("a thousand waiting viewers do not ask in the same moment", () => {
  assert.notEqual(pollAfter("waiting", false, 3, 0), pollAfter("waiting", false, 3, 1));
});
