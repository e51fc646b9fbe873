import assert from "node:assert/strict";
import { test } from "node:test";

import { clock, parse, pictureAt } from "../src/previews.ts";

const LIST = `WEBVTT

00:00:00.000 --> 00:00:02.500
sheet-0.jpg#xywh=0,0,160,90

00:00:02.500 --> 01:00:00.000
sheet-0.jpg#xywh=160,0,160,90

note
01:00:00.000 --> 01:00:10.000
sheet-1.jpg#xywh=0,90,160,90
`;

test("a list names its pictures and their times", () => {
  const [first, second, third] = parse(LIST);
  assert.deepEqual(first, { start: 0, end: 2.5, sheet: "sheet-0.jpg", area: [0, 0, 160, 90] });
  assert.deepEqual(second?.area, [160, 0, 160, 90]);
  assert.deepEqual([third?.start, third?.end, third?.sheet], [3600, 3610, "sheet-1.jpg"]);
});

test("line ends of another system change nothing", () => {
  assert.deepEqual(parse(LIST.replaceAll("\n", "\r\n")), parse(LIST));
});

test("what is no list has no pictures", () => {
  for (const text of ["", "<!doctype html>", "WEBVTT\n\n00:00.000 --> 00:01.000\nhello"]) {
    assert.deepEqual(parse(text), []);
  }
});

test("a moment is shown by the last picture that began by then", () => {
  const pictures = parse(LIST);
  const at = (moment) => pictureAt(pictures, moment)?.start ?? null;
  assert.deepEqual([-1, 0, 2.4, 2.5, 3599, 3600, 9999].map(at), [null, 0, 0, 2.5, 2.5, 3600, 3600]);
  assert.equal(pictureAt([], 1), null);
});

test("times are written as people do", () => {
  assert.deepEqual([0, 5.9, 65, 3605, -1].map(clock), ["0:00", "0:05", "1:05", "1:00:05", "0:00"]);
});
