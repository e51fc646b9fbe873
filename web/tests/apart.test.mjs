import assert from "node:assert/strict";
import test from "node:test";

import { apartOf, driftWords, surenessOf, switchWords } from "../src/console/apart";
import { STREAM_WORDS } from "../src/console/words";

function slot(name, alignment = null, { configuration = "a", silent = 0, video } = {}) {
  return {
    slot: name,
    alignment: alignment && { reference: "primary", reason: null, confidence: 0.9, method: "sound", ...alignment },
    video: video === undefined ? { configuration } : video,
    network: { silent_seconds: silent },
    seconds: { keyframe_seconds: [null, 2] },
  };
}

const at = (behind_ms, rest = {}) => slot("backup-1", { behind_ms, ...rest });
const PRIMARY = slot("primary");

test("how far an encoder is from another one is said in words", () => {
  const of = (behind_ms, reason = null) => apartOf(at(behind_ms, { reason }), [PRIMARY]);
  assert.deepEqual(
    [of(1371), of(-304), of(2), of(1371, "silent"), of(null, "silent"), of(null, "too short")],
    ["1.37 s behind primary", "0.30 s ahead of primary", "In step with primary",
      "1.37 s behind primary", "Not known: silence", "Measuring…"],
  );
});

test("the encoder that others are compared with is named, and one that is not compared", () => {
  assert.equal(apartOf(PRIMARY, [PRIMARY, at(3)]), "The others are compared with it");
  assert.equal(apartOf(PRIMARY, [PRIMARY, slot("backup-1")]), "Not compared");
});

test("how sure a distance is depends on how well the two agree, and on the newest comparison", () => {
  const of = (rest) => surenessOf(at(40, rest));
  assert.deepEqual(
    [of({}), of({ confidence: 0.4 }), of({ method: "picture" }), of({ reason: "silent" }),
      of({ reason: "of tomorrow" }), of({ method: "of tomorrow" })],
    ["Certain, by the sound", "Likely, by the sound", "Certain, by the picture",
      "As found before; silence now", "As found before", "Certain, by comparing them"],
  );
  assert.deepEqual([surenessOf(at(null)), surenessOf(PRIMARY)], ["", ""]);
});

test("a clock that drifts is said under its chart", () => {
  const words = (column, report = [PRIMARY, at(column.at(-1))]) =>
    driftWords({ times: column.map((_, place) => 1000 + place), slots: ["backup-1"], values: [column] }, report);
  const line = (seconds, from, to) => Array.from({ length: seconds + 1 }, (_, at) => from + ((to - from) * at) / seconds);
  assert.deepEqual(words(line(240, 1000, 1090)), [
    "Backup 1: 1.09 s behind primary, 0.09 s later than 4 minutes ago.",
  ]);
  assert.deepEqual(words([null, ...line(60, 0, -25)]), [
    "Backup 1: 0.03 s ahead of primary, 0.03 s earlier than 60 s ago.",
  ]);
  assert.deepEqual(words(line(120, 500, 510)), ["Backup 1: 0.51 s behind primary, steady for 2 minutes."]);
  assert.deepEqual(words(line(20, 500, 900)), ["Backup 1: 0.90 s behind primary."]);
  assert.deepEqual(words([3], [PRIMARY]), []);
});

test("before a switch it is said what viewers will notice", () => {
  const words = (slots, on_air = "primary", most = 1) => switchWords({ on_air, slots }, most);
  const nothing = "Backup 1 takes over where it is; viewers notice nothing.";
  assert.equal(words([PRIMARY, at(100)]), nothing);
  assert.equal(words([PRIMARY, at(-2000)]), nothing);
  assert.equal(
    words([PRIMARY, at(700)]),
    "Backup 1 is 0.7 s behind: viewers get nothing new for up to about 0.7 s.",
  );
  const longer = "viewers get nothing new for up to about 1 s, and see about 1.5 s twice.";
  assert.equal(words([PRIMARY, at(2500)]), `Backup 1 is 2.5 s behind: ${longer}`);
  assert.equal(
    words([PRIMARY, at(2500)], "primary", 0),
    "Backup 1 is 2.5 s behind: viewers see about 2.5 s twice.",
  );
  // Back from the backup, which is behind: the primary is ahead of it.
  assert.match(words([PRIMARY, at(2500)], "backup-1"), /^Primary takes over where it is/);
  assert.match(words([PRIMARY, at(-600)], "backup-1"), /^Primary is 0.6 s behind/);
});

test("what is not known, or set differently, is not promised", () => {
  const words = (slots, on_air = "primary") => switchWords({ on_air, slots }, 1);
  const unknown =
    "It is not known how far the encoders are apart: for viewers the programme may jump, and up to 1 s, half the" +
    " time between two keyframes, is shown twice or lost.";
  assert.equal(words([PRIMARY, at(null)]), unknown);
  assert.equal(words([PRIMARY, slot("backup-1")]), unknown);
  assert.match(words([PRIMARY, at(0)], null), /may jump, and up to half the time/);
  const other = slot("backup-1", { behind_ms: 0 }, { configuration: "b" });
  assert.equal(
    words([PRIMARY, other]),
    "Backup 1 takes over, and viewers' programme goes on where it is. Their pictures are set differently," +
      " so players may stumble for a moment.",
  );
});

test("what takes over is the first encoder that sends, with a picture if there is one", () => {
  const second = slot("backup-2", { behind_ms: 900 });
  const words = (first) => switchWords({ on_air: "primary", slots: [PRIMARY, first, second] }, 1);
  assert.match(words(at(0)), /^Backup 1/);
  assert.match(words(slot("backup-1", { behind_ms: 0 }, { silent: 3 })), /^Backup 2/);
  assert.match(words(slot("backup-1", { behind_ms: 0 }, { video: null })), /^Backup 2/);
});

test("a drill says what viewers missed or saw twice", () => {
  const of = (gap) => STREAM_WORDS.drilled("Backup 1", 740, gap);
  assert.deepEqual(
    [of(33), of(0), of(-120)],
    ["Backup 1 took over after 0.74 s. Viewers missed 33 ms.",
      "Backup 1 took over after 0.74 s. Viewers missed nothing.",
      "Backup 1 took over after 0.74 s. Viewers saw 120 ms twice."],
  );
});
