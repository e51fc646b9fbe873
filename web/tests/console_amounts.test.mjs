import assert from "node:assert/strict";
import { test } from "node:test";

import { bytesText, leftText } from "../src/console/amounts.ts";

test("sizes are written in powers of 1000, as the pages do", () => {
  for (const [size, text] of [
    [0, "0 B"],
    [999, "999 B"],
    [1000, "1.0 kB"],
    [1_400_000_000, "1.4 GB"],
    [5e15, "5000.0 TB"],
  ])
    assert.equal(bytesText(size), text);
});

test("the longer something takes, the less exactly it is written", () => {
  for (const [seconds, text] of [
    [null, ""],
    [Infinity, ""],
    [0.2, "1 s left"],
    [89, "89 s left"],
    [90, "about 2 min left"],
    [5399, "about 90 min left"],
    [7300, "about 2 h left"],
  ])
    assert.equal(leftText(seconds), text);
});
