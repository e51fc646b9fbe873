import assert from "node:assert/strict";
import { test } from "node:test";

import { Rate } from "../src/console/rate.ts";

test("a rate is that of the last seconds", () => {
  const rate = new Rate();
  for (let at = 0; at <= 60_000; at += 500) rate.add(at * 100, at); // 100 kB/s
  assert.equal(rate.perSecond, 100_000);
  for (let at = 60_500; at <= 80_000; at += 500) rate.add(6_000_000 + (at - 60_000), at); // 1 kB/s
  assert.equal(rate.perSecond, 1000);
  assert.equal(rate.secondsFor(5000), 5);
});

test("too little says nothing", () => {
  const rate = new Rate();
  assert.equal(rate.perSecond, null);
  rate.add(0, 0);
  rate.add(1_000_000, 1000);
  assert.equal(rate.perSecond, null);
  assert.equal(rate.secondsFor(1), null);
  rate.add(2_000_000, 2000);
  assert.equal(rate.perSecond, 1_000_000);
});

test("what stands still takes for ever", () => {
  const rate = new Rate();
  rate.add(10, 0);
  rate.add(10, 5000);
  assert.equal(rate.perSecond, 0);
  assert.equal(rate.secondsFor(1), null);
});

test("after a pause it is measured anew", () => {
  const rate = new Rate();
  rate.add(0, 0);
  rate.add(5000, 5000);
  rate.reset();
  assert.equal(rate.perSecond, null);
});
