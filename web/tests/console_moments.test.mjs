import assert from "node:assert/strict";
import { test } from "node:test";

import { moments } from "../src/console/moments.ts";

const pictures = (count) => Array.from({ length: count }, (_, at) => ({ start: at, end: at + 1 }));
const starts = (count, most) => moments(pictures(count), most).map(({ start }) => start);

test("moments are spread over the whole video", () => {
  assert.deepEqual(starts(80, 8), [5, 15, 25, 35, 45, 55, 65, 75]);
});

test("a short video offers what it has", () => {
  assert.deepEqual(starts(3, 8), [0, 1, 2]);
  assert.deepEqual(starts(0, 8), []);
});
