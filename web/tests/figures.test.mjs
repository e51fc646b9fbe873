import assert from "node:assert/strict";
import test from "node:test";

import { figuresOf, remarkOf, verdictOf } from "../src/console/figures";

const SLOT = {
  slot: "primary",
  connected_seconds: 127.4,
  video: { codec: "H.264", profile: "High", width: 1280, height: 720 },
  audio: { codec: "AAC", rate: 44100, channels: 2 },
  network: { silent_seconds: 0.02 },
  seconds: {
    newest: 100,
    bit_rates: [9e9, 2.8e6, 2.8e6, 2.9e6, 2.7e6, 2.8e6],
    frames: [0, 30, 30, 30, 29, 31],
    keyframe_seconds: [null, 8, 2, 2, 2, 2],
  },
  advice: [],
  alignment: null,
  faults: [],
};

test("figures are of the last five seconds", () => {
  assert.deepEqual(figuresOf(SLOT), {
    rate: "2.8 Mbit/s",
    frames: "30 a second",
    keyframes: "every 2 s",
    picture: "1280×720 H.264 High",
    sound: "AAC 44.1 kHz, stereo",
    connected: "2:07",
    apart: "Not compared",
    sure: "",
  });
});

test("what is not known yet is a dash, and what there is not is named", () => {
  const seconds = { newest: -1, bit_rates: [], frames: [], keyframe_seconds: [] };
  const figures = figuresOf({ ...SLOT, video: null, audio: null, seconds });
  assert.deepEqual(
    [figures.rate, figures.frames, figures.keyframes, figures.picture, figures.sound],
    ["–", "–", "–", "None", "None"],
  );
});

test("what may be no fault is said without alarm", () => {
  const of = (...faults) => {
    const slot = { ...SLOT, faults: faults.map(([kind, verdict]) => ({ kind, verdict })) };
    return [verdictOf(slot).text, remarkOf(slot)];
  };
  assert.deepEqual(
    [of(), of(["black", "both"], ["silent", "both"]), of(["frozen", "unknown"]),
      of(["black", "fault"], ["silent", "both"]), of(["black", "fault"], ["silent", "fault"])],
    [["Well", ""], ["Well", "Shows black and is silent, like the others."],
      ["Well", "Shows a frozen picture, which may be meant."],
      ["Shows black, unlike the others", "Is silent, like the others."],
      ["Shows black and is silent, unlike the others", ""]],
  );
});

test("a verdict names the worst", () => {
  assert.equal(verdictOf(SLOT).tone, "good");
  assert.equal(verdictOf({ ...SLOT, advice: ["Set 2 s."] }).tone, "warn");
  const silent = verdictOf({ ...SLOT, advice: ["x"], network: { silent_seconds: 3.4 } });
  assert.deepEqual([silent.tone, silent.text], ["bad", "Nothing has come for 3 s"]);
  const fault = (verdict) => verdictOf({ ...SLOT, faults: [{ kind: "black", verdict }] });
  assert.deepEqual(
    [fault("fault"), fault("both").tone, fault("unknown").tone],
    [{ tone: "bad", text: "Shows black, unlike the others" }, "good", "good"],
  );
  const few = { ...SLOT.seconds, bit_rates: [1] };
  assert.equal(verdictOf({ ...SLOT, seconds: few }).tone, "warn");
});
