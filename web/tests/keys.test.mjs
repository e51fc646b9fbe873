import assert from "node:assert/strict";
import { test } from "node:test";

import { actionOf } from "../src/keys.ts";

const press = (key, focus = "none", held = {}) =>
  actionOf({ key, ctrlKey: false, altKey: false, metaKey: false, ...held }, focus);

const TABLE = [
  [" ", { does: "toggle" }],
  ["k", { does: "toggle" }],
  ["K", { does: "toggle" }],
  ["j", { does: "seek", amount: -10 }],
  ["l", { does: "seek", amount: 10 }],
  ["ArrowLeft", { does: "seek", amount: -5 }],
  ["ArrowRight", { does: "seek", amount: 5 }],
  ["ArrowUp", { does: "louder", amount: 0.1 }],
  ["ArrowDown", { does: "louder", amount: -0.1 }],
  ["m", { does: "mute" }],
  ["f", { does: "full" }],
  ["c", { does: "captions" }],
  ["i", { does: "picture" }],
  ["0", { does: "part", amount: 0 }],
  ["7", { does: "part", amount: 0.7 }],
  [",", { does: "frame", amount: -1 }],
  [".", { does: "frame", amount: 1 }],
  ["<", { does: "speed", amount: -1 }],
  [">", { does: "speed", amount: 1 }],
  ["Home", { does: "start" }],
  ["End", { does: "end" }],
  ["q", null],
  ["Escape", null],
  ["constructor", null],
];

for (const [key, action] of TABLE) {
  test(`${JSON.stringify(key)}: ${JSON.stringify(action)}`, () => {
    assert.deepEqual(press(key), action);
  });
}

test("the browser keeps its own keys", () => {
  for (const held of [{ ctrlKey: true }, { altKey: true }, { metaKey: true }]) {
    assert.equal(press("f", "none", held), null);
  }
});

test("a button keeps the space key, a slider the arrows, a field all", () => {
  assert.equal(press(" ", "button"), null);
  assert.deepEqual(press("k", "button"), { does: "toggle" });
  for (const key of ["ArrowLeft", "ArrowUp", "Home", "End"]) assert.equal(press(key, "slider"), null);
  assert.deepEqual(press("m", "slider"), { does: "mute" });
  for (const key of [" ", "k", "5", "ArrowUp"]) assert.equal(press(key, "text"), null);
});
