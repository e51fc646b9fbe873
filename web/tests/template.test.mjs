import assert from "node:assert/strict";
import { test } from "node:test";

import { filled } from "../src/console/template";

test("an answer's values fill an address", () => {
  const answer = { message: "Stream added.", stream: { id: 7, hash: "a/b?c" } };
  assert.equal(filled("/console/1/streams/{stream.id}", answer), "/console/1/streams/7");
  assert.equal(filled("/x/{stream.hash}/y", answer), "/x/a%2Fb%3Fc/y");
});

test("what an answer lacks is left out", () => {
  for (const answer of [null, [], 7, {}, { stream: null }, { stream: { id: { a: 1 } } }])
    assert.equal(filled("/x/{stream.id}", answer), "/x/");
});
