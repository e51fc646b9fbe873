/** Shows moments in the viewer's zone, with UTC on hover; `data-since` counts the time since.
 *
 * `data-seconds` shows the seconds, too.
 */

const SHOWN = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "short" });
const PRECISE = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "medium" });

/** Convert every moment of the page, now and after each change of it. */
export function bindTimes(): void {
  convert(document.body);
  document.addEventListener("htmx:afterSwap", () => convert(document.body));
  setInterval(() => {
    document.querySelectorAll<HTMLTimeElement>("time[data-since]").forEach(convertOne);
  }, 1000);
}

function convert(root: Element): void {
  root.querySelectorAll<HTMLTimeElement>("time[datetime]").forEach(convertOne);
}

function convertOne(element: HTMLTimeElement): void {
  const moment = new Date(element.dateTime);
  if (Number.isNaN(moment.getTime())) return;
  element.title = utc(moment);
  const { since, seconds } = element.dataset;
  const text =
    since === undefined
      ? (seconds === undefined ? SHOWN : PRECISE).format(moment)
      : clock((Date.now() - moment.getTime()) / 1000);
  if (element.textContent !== text) element.textContent = text;
}

/** Write a moment as it is logged: `2026-01-31 09:05:00 UTC`. */
export function utc(moment: Date): string {
  return `${moment.toISOString().slice(0, 19).replace("T", " ")} UTC`;
}

/** Write a length in seconds as a clock shows it: `4:07`, `1:02:09`. */
export function clock(seconds: number): string {
  const whole = Math.max(0, Math.floor(seconds));
  const [hours, minutes, rest] = [
    Math.floor(whole / 3600),
    Math.floor(whole / 60) % 60,
    whole % 60,
  ];
  const two = (part: number): string => String(part).padStart(2, "0");
  return hours ? `${hours}:${two(minutes)}:${two(rest)}` : `${minutes}:${two(rest)}`;
}
