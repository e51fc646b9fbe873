import assert from "node:assert/strict";
import { test } from "node:test";

import { bodyOf, changed } from "../src/console/form_body";

const control = (name, value, more = {}) => ({
  name,
  value,
  type: "text",
  dataset: {},
  ...more,
});

test("texts are sent as they are, numbers and truth values as such", () => {
  const body = bodyOf([
    control("title", ' <b> "x" '),
    control("keep_days", "30", { dataset: { type: "number" } }),
    control("part", "0.5", { dataset: { type: "number" } }),
    control("on", "1", { type: "checkbox", checked: true, dataset: { type: "boolean" } }),
    control("off", "1", { type: "checkbox", checked: false, dataset: { type: "boolean" } }),
    control("chosen", "true", { type: "select-one", dataset: { type: "boolean" } }),
  ]);
  assert.deepEqual(body, {
    title: ' <b> "x" ',
    keep_days: 30,
    part: 0.5,
    on: true,
    off: false,
    chosen: true,
  });
});

test("dots lead into objects", () => {
  const body = bodyOf([
    control("failover.mode", "sticky"),
    control("failover.detect_seconds", "2", { dataset: { type: "number" } }),
    control("latency", "low"),
  ]);
  assert.deepEqual(body, { failover: { mode: "sticky", detect_seconds: 2 }, latency: "low" });
});

test("what is empty is sent as its form says", () => {
  const body = bodyOf([
    control("description", ""),
    control("category", "", { dataset: { empty: "null" } }),
    control("player", "", { dataset: { type: "number" } }),
    control("name", "", { dataset: { empty: "omit" } }),
  ]);
  assert.deepEqual(body, { description: "", category: null, player: null });
});

test("lists are of boxes, options or words between commas", () => {
  const box = (value, checked) =>
    control("resolutions", value, { type: "checkbox", checked, dataset: { type: "numbers" } });
  const options = [
    { value: "RO", selected: true },
    { value: "DE", selected: false },
    { value: "FR", selected: true },
  ];
  const body = bodyOf([
    box("1", true),
    box("2", false),
    box("3", true),
    control("countries", "RO", { type: "select-multiple", options, dataset: { type: "list" } }),
    control("tags", " news,, sport \n live ", { dataset: { type: "list" } }),
    control("origins", "", { dataset: { type: "list" } }),
  ]);
  assert.deepEqual(body, {
    resolutions: [1, 3],
    countries: ["RO", "FR"],
    tags: ["news", "sport", "live"],
    origins: [],
  });
});

test("radios send the chosen one; buttons, files and what is disabled send nothing", () => {
  const radio = (value, checked) => control("mode", value, { type: "radio", checked });
  const body = bodyOf([
    radio("a", false),
    radio("b", true),
    control("", "nameless"),
    control("go", "1", { type: "submit" }),
    control("file", "C:\\x", { type: "file" }),
    control("gone", "1", { disabled: true }),
  ]);
  assert.deepEqual(body, { mode: "b" });
});

test("only what differs is sent, however deep", () => {
  const before = { title: "a", tags: ["x"], failover: { mode: "sticky" }, day: 1 };
  const now = { title: "a", tags: ["x", "y"], failover: { mode: "sticky" }, day: 2 };
  assert.deepEqual(changed(now, before), { tags: ["x", "y"], day: 2 });
  assert.deepEqual(changed(now, {}), now);
  assert.deepEqual(changed(now, now), {});
});
