/** The preview pictures of a video: which one belongs to a time, and where it is in its sheet. */

/** One picture of a sheet, from `start` to before `end` (seconds). */
export interface Picture {
  start: number;
  end: number;
  sheet: string; // its address, as in the list
  area: readonly [left: number, top: number, width: number, height: number];
}

const TIMES = /^(?:(\d+):)?(\d\d):(\d\d\.\d{3}) --> (?:(\d+):)?(\d\d):(\d\d\.\d{3})/;
const PLACE = /^([^#\s]+)#xywh=(\d+),(\d+),(\d+),(\d+)$/;

/** Parse a list (WebVTT); other cues are skipped. */
export function parse(text: string): Picture[] {
  const found: Picture[] = [];
  for (const block of text.replaceAll("\r\n", "\n").split("\n\n")) {
    const lines = block.split("\n");
    const at = lines.findIndex((line) => TIMES.test(line));
    const times = TIMES.exec(lines[at] ?? "");
    const place = PLACE.exec(lines[at + 1] ?? "");
    if (times === null || place === null) continue;
    const [left, top, width, height] = place.slice(2).map(Number);
    found.push({
      start: seconds(times[1], times[2], times[3]),
      end: seconds(times[4], times[5], times[6]),
      sheet: place[1] ?? "",
      area: [left ?? 0, top ?? 0, width ?? 0, height ?? 0],
    });
  }
  return found.sort((one, other) => one.start - other.start);
}

/** Return the picture for a time: the last one that has started. */
export function pictureAt(pictures: readonly Picture[], moment: number): Picture | null {
  let [low, high] = [0, pictures.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if ((pictures[middle]?.start ?? Infinity) <= moment) low = middle + 1;
    else high = middle;
  }
  return pictures[low - 1] ?? null;
}

/** Format a time: `1:05`, `1:00:05`. */
export function clock(moment: number): string {
  const whole = Math.max(0, Math.floor(moment));
  const [hours, minutes] = [Math.floor(whole / 3600), Math.floor(whole / 60) % 60];
  const rest = String(whole % 60).padStart(2, "0");
  return hours ? `${hours}:${String(minutes).padStart(2, "0")}:${rest}` : `${minutes}:${rest}`;
}

function seconds(hours = "0", minutes = "0", rest = "0"): number {
  return Number(hours) * 3600 + Number(minutes) * 60 + Number(rest);
}
