/** Which moments of a video are offered as its poster. */

import type { Picture } from "../previews";

/** Return up to `most` pictures, spread evenly over the video; the very beginning is often black. */
export function moments(pictures: readonly Picture[], most: number): Picture[] {
  const count = Math.min(most, pictures.length);
  return Array.from({ length: count }, (_, at) => {
    const place = Math.floor(((at + 0.5) * pictures.length) / count);
    return pictures[place];
  }).filter((picture) => picture !== undefined);
}
