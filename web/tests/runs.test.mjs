import assert from "node:assert/strict";
import { test } from "node:test";

import { runOf } from "../src/runs.ts";

const PLAYLIST = `#EXTM3U
#EXT-X-VERSION:7
#EXT-X-MEDIA:TYPE=AUDIO,GROUP-ID="audio",NAME="audio",URI="20260131T120000123/audio/index.m3u8"
#EXT-X-STREAM-INF:BANDWIDTH=800000,AUDIO="audio"
20260131T120000123/360p/index.m3u8
#EXT-X-STREAM-INF:BANDWIDTH=2400000,AUDIO="audio"
20260131T120000123/720p/index.m3u8
`;

test("the run is the first part of the first variant's address", () => {
  assert.equal(runOf(PLAYLIST), "20260131T120000123");
});

test("line ends of another system change nothing", () => {
  assert.equal(runOf(PLAYLIST.replaceAll("\n", "\r\n")), "20260131T120000123");
});

test("a page that is no playlist names no run", () => {
  assert.equal(runOf("<!doctype html><title>Hotel network</title>"), null);
});

test("a playlist without a variant names no run", () => {
  assert.equal(runOf("#EXTM3U\n#EXT-X-VERSION:7\n"), null);
});
