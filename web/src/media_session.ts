/** What the device shows and offers outside the page: its media keys, lock screen, headphones. */

import type { Show } from "./show";

const STEP = 10; // seconds

/** What is played, as the device shows it. */
export interface About {
  title: string;
  poster: string; // an address, or ""
}

/** Offer the actions of a show to the device; return a function that keeps the position right. */
export function bindMediaSession(show: Show, { title, poster }: About): () => void {
  const session = navigator.mediaSession as MediaSession | undefined;
  if (session === undefined) return () => undefined;
  const artwork = poster === "" ? [] : [{ src: new URL(poster, location.href).href }];
  session.metadata = new MediaMetadata({ title, artwork });
  const { video } = show;
  const actions: [MediaSessionAction, MediaSessionActionHandler][] = [
    ["play", () => void show.play()],
    ["pause", () => video.pause()],
    ["stop", () => video.pause()],
    ["seekbackward", ({ seekOffset }) => show.seek(video.currentTime - (seekOffset ?? STEP))],
    ["seekforward", ({ seekOffset }) => show.seek(video.currentTime + (seekOffset ?? STEP))],
    ["seekto", ({ seekTime }) => show.seek(seekTime ?? Number.NaN)],
  ];
  for (const [action, handler] of actions) {
    try {
      session.setActionHandler(action, handler);
    } catch {
      // An action that this browser does not know.
    }
  }
  return () => {
    const { duration, currentTime, playbackRate } = video;
    if (show.live || !Number.isFinite(duration) || duration <= 0) {
      session.setPositionState?.();
    } else {
      const position = Math.min(currentTime, duration);
      session.setPositionState?.({ duration, position, playbackRate });
    }
  };
}
