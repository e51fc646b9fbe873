import assert from "node:assert/strict";
import { test } from "node:test";

import { bodyOf } from "../src/console/form_body.ts";
import { reasonIn } from "../src/console/reasons.ts";

const control = (name, value, dataset, rest = {}) => ({ name, value, type: "text", dataset, ...rest });

test("names become objects with a name", () => {
  assert.deepEqual(bodyOf([control("tags", "news, sport,, ", { type: "named" })]), {
    tags: [{ name: "news" }, { name: "sport" }],
  });
  assert.deepEqual(bodyOf([control("tags", "", { type: "named" })]), { tags: [] });
});

test("a boolean that was not chosen is null", () => {
  const chosen = (value) => control("a.b", value, { type: "boolean", empty: "null" });
  assert.deepEqual(bodyOf([chosen("")]), { a: { b: null } });
  assert.deepEqual(bodyOf([chosen("true")]), { a: { b: true } });
  assert.deepEqual(bodyOf([chosen("false")]), { a: { b: false } });
  const box = control("c", "on", { type: "boolean" }, { type: "checkbox", checked: false });
  assert.deepEqual(bodyOf([box]), { c: false });
});

test("reasons are the sentences of the API", () => {
  const body = { message: "Not valid: see video.", errors: { video: ["No media file.", "Empty."] } };
  assert.equal(reasonIn(JSON.stringify(body)), "No media file. Empty.");
  assert.equal(reasonIn('{"message": "Too many."}'), "Too many.");
  assert.equal(reasonIn("<html>"), "");
  assert.equal(reasonIn(""), "");
});
