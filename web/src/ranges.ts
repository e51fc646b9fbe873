/** What of the media is at hand; all in seconds. */

// Browsers report a position that is a little before the range that it plays. The sound of a segment
// begins up to a frame after its picture.
const SLACK = 0.1;

// So near to the end of a segment, hls.js loads the next one alone (maxFragLookUpTolerance).
const NEXT = 0.25;

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

/**
 * Return where to seek for a position of which nothing may be buffered: there, or a little into the
 * next segment where hls.js would load that one, and would have to get over the hole before it.
 */
export function entryAt(
  position: number,
  segments: readonly { readonly end: number }[],
): number {
  const near = segments.find(({ end }) => end - NEXT < position && position < end + SLACK);
  return near === undefined ? position : near.end + SLACK;
}
