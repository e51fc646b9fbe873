import assert from "node:assert/strict";
import { test } from "node:test";

import { bufferedTo, entryAt } from "../src/ranges.ts";

const video = (currentTime, ...ranges) => ({
  currentTime,
  buffered: {
    length: ranges.length,
    start: (at) => ranges[at][0],
    end: (at) => ranges[at][1],
  },
});

test("the buffer ends where the range of the position ends", () => {
  assert.equal(bufferedTo(video(5, [0, 3], [4, 9], [20, 30])), 9);
  assert.equal(bufferedTo(video(3.95, [4, 9])), 9);
});

test("between ranges, or without any, nothing is buffered", () => {
  assert.equal(bufferedTo(video(15, [0, 9], [20, 30])), 15);
  assert.equal(bufferedTo(video(0)), 0);
});

test("a seek leads to where hls.js loads the segment of the position", () => {
  const segments = [{ end: 2 }, { end: 4 }, { end: 6 }];
  for (const [position, entry] of [
    [2.5, 2.5],
    [3.7, 3.7],
    [3.8, 4.1],
    [4, 4.1],
    [4.05, 4.1],
    [4.2, 4.2],
    [9, 9],
  ]) {
    assert.equal(entryAt(position, segments), entry, `${position}`);
  }
  assert.equal(entryAt(3.8, []), 3.8);
});
