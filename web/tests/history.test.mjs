import assert from "node:assert/strict";
import test from "node:test";

import { beginning, bySlot, History, KEPT } from "../src/console/history";

function slot(name, newest, rates) {
  return {
    slot: name,
    seconds: {
      newest,
      bit_rates: rates,
      frames: rates.map(() => 30),
      keyframe_seconds: rates.map(() => 2),
    },
  };
}

test("reports that overlap are joined, and what is between them is a gap", () => {
  const history = new History();
  history.add([slot("primary", 10, [1, 2, 3])], 1000);
  history.add([slot("primary", 11, [2, 3, 4])], 1001);
  history.add([slot("primary", 14, [7])], 1004);
  const { times, slots, values } = history.series("bit_rates");
  assert.deepEqual(slots, ["primary"]);
  assert.equal(times.length, KEPT);
  assert.equal(times.at(-1), 1004);
  assert.deepEqual(values[0].slice(-7), [1, 2, 3, 4, null, null, 7]);
  assert.equal(values[0].at(-8), null);
});

test("how far encoders are apart is kept for the seconds between two reports", () => {
  const history = new History();
  const add = (newest, behind_ms) => {
    const rates = Array(8).fill(1);
    const alignment = behind_ms === undefined ? null : { behind_ms };
    const backup = { ...slot("backup-1", newest, rates), alignment };
    history.add([slot("primary", newest, rates), backup], 990 + newest);
  };
  add(10, undefined);
  assert.deepEqual(history.series("behind_ms").slots, []);
  add(12, 300);
  add(14, 310);
  add(14, 315); // of the same second
  add(15, null);
  add(23, 330); // the page was not visible
  const { slots, values } = history.series("behind_ms");
  assert.deepEqual(slots, ["backup-1"]);
  const gap = Array(8).fill(null);
  assert.deepEqual(values[0].slice(-14), [null, 300, 300, 310, 310, ...gap, 330]);
  assert.equal(history.series("frames").slots.length, 2);
});

test("each encoder has its line, the primary first", () => {
  const history = new History();
  history.add([slot("backup-10", 5, [3]), slot("backup-2", 5, [2]), slot("primary", 5, [1])], 100);
  assert.deepEqual(history.series("frames").slots, ["primary", "backup-2", "backup-10"]);
  assert.deepEqual(history.series("bit_rates").values.map((line) => line.at(-1)), [1, 2, 3]);
});

test("an encoder that is gone stays for as long as the chart shows it", () => {
  const history = new History();
  history.add([slot("primary", 10, [1]), slot("backup-1", 10, [9])], 1000);
  for (let second = 11; second < 10 + KEPT; second++)
    history.add([slot("primary", second, [1])], 990 + second);
  assert.deepEqual(history.slots, ["primary", "backup-1"]);
  history.add([slot("primary", 10 + KEPT, [1])], 1000 + KEPT);
  assert.deepEqual(history.slots, ["primary"]);
});

test("memory is bounded: eight hours leave no more than five minutes", () => {
  const history = new History();
  const rates = Array.from({ length: 60 }, () => 1);
  for (let second = 60; second < 8 * 3600; second += 2)
    history.add([slot("primary", second, rates)], 1e6 + second);
  assert.equal(history.size, KEPT);
});

test("another process has another clock: the chart begins anew", () => {
  const history = new History();
  history.add([slot("primary", 5000, [1, 1, 1])], 1000);
  history.add([slot("primary", 12, [2])], 1002);
  const { times, values } = history.series("bit_rates");
  assert.deepEqual(values[0].filter((value) => value !== null), [2]);
  assert.equal(times.at(-1), 1002);
});

test("answers that are late do not move the line", () => {
  const history = new History();
  history.add([slot("primary", 10, [1, 2])], 1000.1);
  history.add([slot("primary", 12, [3, 4])], 1003.9);
  assert.deepEqual(history.series("bit_rates").values[0].slice(-4), [1, 2, 3, 4]);
  assert.equal(history.series("bit_rates").times.at(-1), 1002);
});

test("a report before the first whole second adds nothing", () => {
  const history = new History();
  history.add([slot("primary", -1, [])], 1000);
  assert.deepEqual(history.slots, []);
  assert.equal(history.series("frames").values.length, 0);
});

test("slots are in order of their numbers", () => {
  assert.deepEqual(["backup-2", "primary", "backup-1"].sort(bySlot), [
    "primary",
    "backup-1",
    "backup-2",
  ]);
});

test("a chart begins at the first value, and shows a minute at least", () => {
  const history = new History();
  history.add([slot("primary", 10, [1, 2, 3])], 1000);
  assert.equal(beginning(history.series("bit_rates")), 940);
  history.add([slot("primary", 110, Array(60).fill(1))], 1100);
  assert.equal(beginning(history.series("bit_rates")), 998);
  assert.equal(beginning({ times: [7], slots: [], values: [] }), -53);
});
