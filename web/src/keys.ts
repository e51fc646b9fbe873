/** The usual player keys: k or space, m, f, l, and the arrows. */

const STEP = 5; // seconds
const LOUDER = 0.1;

/** Listen on the whole page, without doing twice what the video element does itself. */
export function bindKeys(video: HTMLVideoElement, goLive: () => void): void {
  const actions: Record<string, () => void> = {
    " ": () => toggle(video),
    k: () => toggle(video),
    m: () => {
      video.muted = !video.muted;
    },
    f: () => void fullScreen(video),
    l: goLive,
    ArrowLeft: () => seek(video, -STEP),
    ArrowRight: () => seek(video, STEP),
    ArrowUp: () => sound(video, LOUDER),
    ArrowDown: () => sound(video, -LOUDER),
  };
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.altKey || event.metaKey || event.defaultPrevented) return;
    // Buttons, menus and links have keys of their own.
    if (event.target instanceof Element && event.target.closest("button, select, a, input")) return;
    const action = actions[event.key.length === 1 ? event.key.toLowerCase() : event.key];
    if (action === undefined) return;
    event.preventDefault();
    action();
  });
}

/** Play or pause. */
export function toggle(video: HTMLVideoElement): void {
  if (video.paused) void video.play().catch(() => undefined);
  else video.pause();
}

function seek(video: HTMLVideoElement, by: number): void {
  const { seekable } = video;
  if (seekable.length === 0) return;
  const [first, last] = [seekable.start(0), seekable.end(seekable.length - 1)];
  video.currentTime = Math.min(Math.max(video.currentTime + by, first), last);
}

function sound(video: HTMLVideoElement, by: number): void {
  video.volume = Math.min(Math.max(video.volume + by, 0), 1);
  if (by > 0) video.muted = false;
}

async function fullScreen(video: HTMLVideoElement): Promise<void> {
  try {
    if (document.fullscreenElement) await document.exitFullscreen();
    else await video.requestFullscreen();
  } catch {
    // A frame without permission for full screen; the video element has no button either.
  }
}
