/** The player in a frame: the page around it controls it by the player.js protocol. */

import type { HeadendPlayer } from "./player";
import { Receiver, type Methods } from "./playerjs";

const REFUSED = new Set(["gone", "blocked"]);

/** Offer a player to the parent page; nothing happens outside a frame. */
export function bindFrame(player: HeadendPlayer): void {
  const { video } = player;
  const { parent } = window;
  if (parent === window || video === null) return;
  // Any page may frame the player, and nothing here is secret: so to whom it may concern.
  const send = (text: string): void => parent.postMessage(text, "*");
  const receiver = new Receiver(location.href, methodsOf(player, video), send);
  window.addEventListener("message", ({ source, data }) => {
    if (source === parent) receiver.receive(data);
  });
  // A live stream has no length that a number could say; JSON has no infinity.
  const duration = (): number => (Number.isFinite(video.duration) ? video.duration : 0);
  video.addEventListener("play", () => receiver.emit("play"));
  video.addEventListener("pause", () => receiver.emit("pause"));
  video.addEventListener("ended", () => receiver.emit("ended"));
  video.addEventListener("seeked", () => receiver.emit("seeked"));
  video.addEventListener("timeupdate", () => {
    receiver.emit("timeupdate", { seconds: video.currentTime, duration: duration() });
  });
  video.addEventListener("progress", () => {
    const { buffered } = video;
    const last = buffered.length === 0 ? 0 : buffered.end(buffered.length - 1);
    receiver.emit("progress", { percent: duration() > 0 ? last / duration() : 0 });
  });
  player.addEventListener("statechange", () => {
    const { state } = player;
    if (REFUSED.has(state)) receiver.emit("error", { code: 1, msg: state });
    if (state === "ended" && !video.ended) receiver.emit("ended");
  });
  receiver.ready();
}

function methodsOf(player: HeadendPlayer, video: HTMLVideoElement): Methods {
  return {
    play: () => void player.play(),
    pause: () => player.pause(),
    getPaused: () => video.paused,
    mute: () => void (video.muted = true),
    unmute: () => void (video.muted = false),
    getMuted: () => video.muted,
    setVolume: (volume) => {
      const share = Number(volume) / 100;
      if (share >= 0 && share <= 1) video.volume = share;
    },
    getVolume: () => 100 * video.volume,
    getDuration: () => (Number.isFinite(video.duration) ? video.duration : 0),
    setCurrentTime: (seconds) => player.seek(Number(seconds)),
    getCurrentTime: () => video.currentTime,
    setLoop: (loop) => void (video.loop = loop === true),
    getLoop: () => video.loop,
  };
}
