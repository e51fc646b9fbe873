import assert from "node:assert/strict";
import { test } from "node:test";

import { clock, utc } from "../src/console/times";

test("a moment is written in UTC, to the second", () => {
  assert.equal(utc(new Date("2026-01-31T09:05:07.999Z")), "2026-01-31 09:05:07 UTC");
});

test("a length is written as a clock shows it", () => {
  assert.equal(clock(0), "0:00");
  assert.equal(clock(7.9), "0:07");
  assert.equal(clock(247), "4:07");
  assert.equal(clock(3729), "1:02:09");
  assert.equal(clock(-3), "0:00", "clocks differ a little");
});
