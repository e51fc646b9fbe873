import assert from "node:assert/strict";
import { test } from "node:test";

import { offering } from "../src/reload.ts";

const LIVE = "#EXTM3U\n#EXT-X-VERSION:7\n#EXT-X-TARGETDURATION:4\n#EXTINF:2,\n1.m4s\n";

test("a live media playlist offers blocking reloads", () => {
  assert.equal(
    offering(LIVE),
    LIVE.replace("#EXT-X-T", "#EXT-X-SERVER-CONTROL:CAN-BLOCK-RELOAD=YES\n#EXT-X-T"),
  );
});

test("what its own server offers is left as it is", () => {
  const offered = LIVE.replace("#EXT-X-T", "#EXT-X-SERVER-CONTROL:HOLD-BACK=12\n#EXT-X-T");
  assert.equal(offering(offered), offered);
});

test("ended and multivariant playlists are not reloaded", () => {
  for (const text of [
    `${LIVE}#EXT-X-ENDLIST\n`,
    "#EXTM3U\n#EXT-X-STREAM-INF:BANDWIDTH=1\nrun/720p/index.m3u8\n",
  ]) {
    assert.equal(offering(text), text);
  }
});
