import assert from "node:assert/strict";
import { test } from "node:test";

import { Memory } from "../src/memory.ts";

/** A store as browsers have it. */
function store() {
  const kept = new Map();
  return {
    kept,
    getItem: (name) => kept.get(name) ?? null,
    setItem: (name, text) => void kept.set(name, text),
  };
}

test("what was chosen is there the next time, and the rest stays", () => {
  const place = store();
  new Memory(() => place).keep({ volume: 0.4, muted: false });
  new Memory(() => place).keep({ speed: 1.5, subtitles: "de", latency: "normal" });
  assert.deepEqual(new Memory(() => place).read(), {
    volume: 0.4,
    muted: false,
    speed: 1.5,
    subtitles: "de",
    latency: "normal",
  });
  assert.equal(place.kept.size, 1);
});

test("nothing is kept before anything was chosen", () => {
  const place = store();
  assert.deepEqual(new Memory(() => place).read(), {});
  assert.equal(place.kept.size, 0);
});

test("a browser that keeps nothing for us changes nothing", () => {
  const closed = new Memory(() => {
    throw new Error("SecurityError");
  });
  closed.keep({ volume: 1 });
  assert.deepEqual(closed.read(), {});
});

test("what others left there is not believed", () => {
  for (const text of ["{", "null", "7", '"x"', '{"volume":7,"muted":"yes","speed":3,"subtitles":1,"latency":"x"}']) {
    const place = store();
    place.kept.set("headend.player", text);
    assert.deepEqual(new Memory(() => place).read(), {}, text);
  }
});
