import assert from "node:assert/strict";
import { test } from "node:test";

import {
  BEGINNING,
  CALM,
  FASTER,
  FURTHEST,
  FURTHEST_NORMAL,
  JUMP,
  LATE,
  Latency,
  SLOWER,
  STEP,
} from "../src/latency.ts";

const PART_HOLD_BACK = 1.5;

function asked() {
  const latency = new Latency();
  latency.ask(PART_HOLD_BACK);
  return latency;
}

const at = (now, behind, more = {}) => ({ now, behind, ahead: 1, following: true, ...more });

test("without a playlist there is no distance, and nothing is done", () => {
  const latency = new Latency();
  assert.equal(latency.target, null);
  assert.deepEqual(latency.steer(at(0, 9)), { target: 9, rate: 1, jump: false });
});

test("it plays where the playlist asks for, at the speed of the media", () => {
  const latency = asked();
  assert.deepEqual(latency.steer(at(0, 1.7)), { target: 1.5, rate: 1, jump: false });
});

test("who is behind catches up, all the way, and never by more than four per cent", () => {
  const latency = asked();
  // The beginning is over.
  for (const now of [-BEGINNING, 0]) latency.steer(at(now, PART_HOLD_BACK));
  let [now, behind] = [0, 6];
  for (; behind > PART_HOLD_BACK + 0.15 && now < 600_000; now += 250) {
    const { rate, jump } = latency.steer(at(now, behind));
    assert.equal(rate, FASTER);
    assert.equal(jump, false);
    behind -= 0.25 * (rate - 1);
  }
  assert.ok(now < 130_000, `4.4 s at 4 % take 110 s, not ${now / 1000}`);
  assert.equal(latency.steer(at(now, PART_HOLD_BACK + 0.05)).rate, 1);
  // A little off is no reason to begin again.
  assert.equal(latency.steer(at(now, PART_HOLD_BACK + 0.2)).rate, 1);
});

test("nobody catches up on an empty buffer", () => {
  assert.equal(asked().steer(at(0, 6, { ahead: 0.2 })).rate, 1);
});

test("who went back stays there at the speed of the media", () => {
  assert.deepEqual(asked().steer(at(0, 600, { following: false })), {
    target: PART_HOLD_BACK,
    rate: 1,
    jump: false,
  });
});

test("only what catching up would take ten minutes for is skipped", () => {
  const latency = asked();
  assert.equal(latency.steer(at(0, PART_HOLD_BACK + JUMP)).jump, false);
  assert.equal(latency.steer(at(0, PART_HOLD_BACK + JUMP + 1)).jump, true);
});

const there = (now, behind, more = {}) => at(now, behind, { ahead: behind - 0.2, ...more });

test("who begins too far behind goes to the distance once, without waiting", () => {
  const latency = asked();
  assert.equal(latency.steer(there(0, PART_HOLD_BACK + LATE)).jump, false);
  assert.equal(latency.steer(there(100, 6)).jump, true);
  assert.equal(latency.steer(there(200, 6)).jump, false);
  assert.equal(latency.steer(there(300, 6)).rate, FASTER);
});

test("at the start it waits for the media of its place, but not for long", () => {
  const latency = asked();
  assert.equal(latency.steer(at(0, 6, { ahead: 4.8 })).jump, false);
  assert.equal(latency.steer(at(BEGINNING - 1, 6, { ahead: 5 })).jump, true);
  const slow = asked();
  assert.equal(slow.steer(at(0, 6)).jump, false);
  assert.equal(slow.steer(at(5 * BEGINNING, 6)).jump, true);
  assert.equal(slow.steer(at(5 * BEGINNING + 1, 6)).jump, false);
});

test("a little late and not loaded is left to the speed", () => {
  const latency = asked();
  assert.equal(latency.steer(at(0, PART_HOLD_BACK + 2 * LATE)).jump, false);
  assert.equal(latency.steer(at(BEGINNING, PART_HOLD_BACK + 2 * LATE)).jump, false);
  assert.equal(latency.steer(there(BEGINNING + 1, 6)).jump, false);
});

test("who began at the right place and falls behind later catches up", () => {
  const latency = asked();
  assert.equal(latency.steer(at(0, PART_HOLD_BACK)).jump, false);
  assert.equal(latency.steer(at(BEGINNING, PART_HOLD_BACK)).jump, false);
  assert.deepEqual(latency.steer(there(BEGINNING + 1, 6)), {
    target: PART_HOLD_BACK,
    rate: FASTER,
    jump: false,
  });
});

test("who opens the run anew begins anew", () => {
  const latency = asked();
  assert.equal(latency.steer(there(0, 6)).jump, true);
  latency.open();
  assert.equal(latency.steer(there(60_000, 6)).jump, true);
});

test("who went back at once is left there", () => {
  assert.equal(asked().steer(there(0, 6, { following: false })).jump, false);
});

test("stalls lead no further than the one who asks allows", () => {
  const latency = new Latency(FURTHEST_NORMAL);
  latency.ask(6);
  for (let count = 0; count < 50; count += 1) latency.stalled(1_000 + count);
  assert.equal(latency.target, FURTHEST_NORMAL);
});

test("each stall adds half a second, to six", () => {
  const latency = asked();
  latency.stalled(1_000);
  assert.equal(latency.target, PART_HOLD_BACK + STEP);
  for (let count = 0; count < 50; count += 1) latency.stalled(1_000 + count);
  assert.equal(latency.target, FURTHEST);
});

test("a playlist that asks for more than six seconds gets it", () => {
  const latency = new Latency();
  latency.ask(9);
  latency.stalled(0);
  assert.equal(latency.target, 9);
});

test("after a stall the new distance is reached by playing slower", () => {
  const latency = asked();
  latency.stalled(0);
  assert.equal(latency.steer(at(0, 1.5)).rate, SLOWER);
  assert.equal(latency.steer(at(250, 1.85)).rate, SLOWER);
  assert.equal(latency.steer(at(500, 1.95)).rate, 1);
});

test("a minute without a stall brings it half a second nearer, one step at a time", () => {
  const latency = asked();
  latency.stalled(0);
  latency.stalled(10);
  assert.equal(latency.steer(at(CALM - 1, 2.5)).target, 2.5);
  assert.equal(latency.steer(at(CALM + 10, 2.5)).target, 2);
  assert.equal(latency.steer(at(CALM + 20, 2.5)).target, 2);
  assert.equal(latency.steer(at(2 * CALM + 20, 2)).target, 1.5);
  assert.equal(latency.steer(at(9 * CALM, 1.5)).target, 1.5);
});

test("who stalls right after a step nearer waits twice as long for the next one", () => {
  const latency = asked();
  latency.stalled(0);
  assert.equal(latency.steer(at(CALM, 2)).target, 1.5);
  latency.stalled(CALM + 5_000);
  assert.equal(latency.steer(at(2 * CALM + 10_000, 2)).target, 2);
  assert.equal(latency.steer(at(3 * CALM + 5_000, 2)).target, 1.5);
});

test("a network that never bears it is tried less and less, but at least every eight minutes", () => {
  const latency = asked();
  const steps = [];
  latency.stalled(0);
  for (let now = 0; now < 3_600_000; now += 1_000) {
    if (latency.steer(at(now, 2)).target > PART_HOLD_BACK) continue;
    steps.push(now);
    latency.stalled(now + 500);
  }
  const pauses = steps.slice(1).map((step, place) => (step - steps[place]) / CALM);
  assert.deepEqual(pauses.map(Math.round), [2, 4, 8, 8, 8, 8, 8, 8].slice(0, pauses.length));
  assert.ok(pauses.length >= 6);
});
