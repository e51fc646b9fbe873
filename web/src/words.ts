/** All words of the player, in one place. */

import type { State } from "./state";

/** What the curtain says in each state. */
export type Words = Record<State, string>;

const OF_STREAMS: Words = {
  waiting: "The stream has not begun. It will start here by itself.",
  starting: "Looking for the stream…",
  playing: "Playing",
  reconnecting: "Connection lost. Trying again…",
  ended: "The stream has ended. If it goes on, it will start here by itself.",
  gone: "This stream is no longer available.",
  blocked: "Not available in your country.",
};

const OF_VIDEOS: Words = {
  ...OF_STREAMS,
  waiting: "The video is being prepared. It will start here by itself.",
  starting: "Loading the video…",
  ended: "The video has ended.",
  gone: "This video is no longer available.",
};

const OF_FAILED: Words = { ...OF_VIDEOS, waiting: "This video could not be prepared." };

/** Return the words for a stream, a video, or a video that could not be prepared. */
export function wordsFor(isVideo: boolean, failed: boolean): Words {
  if (!isVideo) return OF_STREAMS;
  return failed ? OF_FAILED : OF_VIDEOS;
}

export const LABELS = {
  player: "Player",
  controls: "Player controls",
  play: "Play",
  pause: "Pause",
  replay: "Play again",
  mute: "Mute",
  unmute: "Unmute",
  volume: "Volume",
  position: "Position in the video",
  rewind: "Position in the stream",
  live: "Live",
  toLive: "Go to the live edge",
  subtitles: "Subtitles",
  settings: "Settings",
  quality: "Quality",
  speed: "Speed",
  audio: "Audio",
  latency: "Delay",
  low: "Low",
  normal: "Normal",
  off: "Off",
  auto: "Auto",
  picture: "Picture in picture",
  airplay: "AirPlay",
  cast: "Play on another screen",
  full: "Full screen",
  window: "Leave full screen",
} as const;

/** Name a speed: `1.25×`. */
export function speedLabel(speed: number): string {
  return `${speed}×`;
}
