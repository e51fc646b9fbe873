/** What of the media is at hand; all in seconds. */

// Browsers report a position that is a little before the range that it plays.
const SLACK = 0.1;

/** Return the end of what is buffered around the position; the position itself if nothing is. */
export function bufferedTo({
  buffered,
  currentTime,
}: Pick<HTMLVideoElement, "buffered" | "currentTime">): number {
  for (let at = 0; at < buffered.length; at += 1) {
    if (buffered.start(at) <= currentTime + SLACK && buffered.end(at) >= currentTime) {
      return buffered.end(at);
    }
  }
  return currentTime;
}
