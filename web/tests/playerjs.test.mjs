import assert from "node:assert/strict";
import { test } from "node:test";

import { EVENTS, Receiver } from "../src/playerjs.ts";

function framed() {
  const sent = [];
  const done = [];
  const methods = {
    play: () => done.push("play"),
    pause: () => done.push("pause"),
    getPaused: () => true,
    mute: () => done.push("mute"),
    unmute: () => done.push("unmute"),
    getMuted: () => false,
    setVolume: (volume) => done.push(["volume", volume]),
    getVolume: () => 40,
    getDuration: () => 12.5,
    setCurrentTime: (seconds) => done.push(["time", seconds]),
    getCurrentTime: () => 0,
    setLoop: (loop) => done.push(["loop", loop]),
    getLoop: () => false,
  };
  const receiver = new Receiver("https://x/embed/1", methods, (text) => sent.push(JSON.parse(text)));
  const call = (method, value, listener) =>
    receiver.receive(JSON.stringify({ context: "player.js", version: "0.0.11", method, value, listener }));
  return { receiver, sent, done, call };
}

test("ready is said without being asked, with what there is", () => {
  const { receiver, sent } = framed();
  receiver.ready();
  assert.equal(sent.length, 1);
  const { context, version, event, value } = sent[0];
  assert.deepEqual([context, version, event], ["player.js", "0.0.11", "ready"]);
  assert.equal(value.src, "https://x/embed/1");
  assert.deepEqual(value.events, [...EVENTS]);
  for (const method of ["play", "getDuration", "addEventListener", "removeEventListener"]) {
    assert.ok(value.methods.includes(method), method);
  }
});

test("who listens for ready after it was said hears it at once", () => {
  const { receiver, sent, call } = framed();
  call("addEventListener", "ready", "early");
  assert.deepEqual(sent, []);
  receiver.ready();
  call("addEventListener", "ready", "late");
  assert.deepEqual(sent.map(({ event, listener }) => [event, listener]), [
    ["ready", "early"],
    ["ready", "late"],
  ]);
});

test("methods are done, getters answered to who asked", () => {
  const { sent, done, call } = framed();
  call("play");
  call("setCurrentTime", 7);
  call("getDuration", undefined, "me");
  assert.deepEqual(done, ["play", ["time", 7]]);
  assert.deepEqual(sent, [
    { context: "player.js", version: "0.0.11", event: "getDuration", value: 12.5, listener: "me" },
  ]);
});

test("falsy answers are answers", () => {
  const { sent, call } = framed();
  call("getMuted");
  call("getCurrentTime");
  assert.deepEqual(sent.map(({ value }) => value), [false, 0]);
});

test("events go to their listeners only, once each, until they leave", () => {
  const { receiver, sent, call } = framed();
  assert.equal(receiver.emit("play"), false);
  call("addEventListener", "timeupdate", "a");
  call("addEventListener", "timeupdate", "a");
  call("addEventListener", "timeupdate", "b");
  receiver.emit("timeupdate", { seconds: 1, duration: 2 });
  assert.deepEqual(sent.map(({ listener, value }) => [listener, value.seconds]), [["a", 1], ["b", 1]]);
  call("removeEventListener", "timeupdate", "a");
  receiver.emit("timeupdate", { seconds: 2, duration: 2 });
  assert.deepEqual(sent.slice(2).map(({ listener }) => listener), ["b"]);
  call("removeEventListener", "timeupdate");
  assert.equal(receiver.emit("timeupdate", {}), false);
});

test("an unknown method is an error for who listens", () => {
  const { sent, call } = framed();
  call("addEventListener", "error", "me");
  call("explode");
  call("constructor");
  assert.deepEqual(sent.map(({ event, value }) => [event, value.code]), [["error", 2], ["error", 2]]);
});

test("what is not of the protocol is passed over", () => {
  const { receiver, sent, done } = framed();
  const others = [null, 7, "{", "[]", '"play"', { method: "play" }, { context: "player.js" }, { context: "x", method: "play" }];
  for (const data of others) receiver.receive(data);
  assert.deepEqual([sent, done], [[], []]);
});

test("some parents send objects", () => {
  const { receiver, done } = framed();
  receiver.receive({ context: "player.js", method: "pause" });
  assert.deepEqual(done, ["pause"]);
});

test("listeners have a bound", () => {
  const { receiver, sent, call } = framed();
  for (let count = 0; count < 1_000; count += 1) call("addEventListener", "play", `l${count}`);
  receiver.emit("play");
  assert.equal(sent.length, 100);
});
