/** Elements and icons, made without markup in text, so that nothing is ever parsed. */

const SVG = "http://www.w3.org/2000/svg";

/** Make an element. */
export function make<Tag extends keyof HTMLElementTagNameMap>(
  tag: Tag,
  attributes: Readonly<Record<string, string>> = {},
  ...children: (Node | string)[]
): HTMLElementTagNameMap[Tag] {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  element.append(...children);
  return element;
}

/** Lines in a square of 24; `filled` ones are painted whole. */
const ICONS = {
  play: "M8 5v14l11-7z",
  pause: "M8 5v14M16 5v14",
  replay: "M5 4v5h5M5.4 9A7.5 7.5 0 1 1 5 14",
  loud: "M11 5 6 9H3v6h3l5 4zM15 9.5a4 4 0 0 1 0 5M17.5 6.5a8 8 0 0 1 0 11",
  silent: "M11 5 6 9H3v6h3l5 4zM16 9.5l5 5M21 9.5l-5 5",
  subtitles: "M3 5h18v14H3zM11 10.5a2.2 2.2 0 1 0 0 3M18 10.5a2.2 2.2 0 1 0 0 3",
  settings: "M3 8h9M18 8h3M3 16h3M12 16h9M15 5.5v5M9 13.5v5",
  picture: "M3 5h18v14H3zM12 12h6v4h-6z",
  airplay: "M6 17H3V5h18v12h-3M12 14.5l5 6H7z",
  cast: "M3 8V5h18v14h-6M3 12a7 7 0 0 1 7 7M3 16a3 3 0 0 1 3 3",
  full: "M4 9V4h5M15 4h5v5M20 15v5h-5M9 20H4v-5",
  window: "M9 4v5H4M20 9h-5V4M15 20v-5h5M4 15h5v5",
} as const;

export type IconName = keyof typeof ICONS;

/** Make an icon that screen readers pass over. */
export function icon(name: IconName): SVGSVGElement {
  const picture = document.createElementNS(SVG, "svg");
  picture.setAttribute("viewBox", "0 0 24 24");
  picture.setAttribute("aria-hidden", "true");
  const line = picture.appendChild(document.createElementNS(SVG, "path"));
  draw(picture, name);
  line.setAttribute("class", "line");
  return picture;
}

/** Turn a picture into another one. */
export function draw(picture: Element, name: IconName): void {
  if (picture.getAttribute("data-icon") === name) return;
  picture.setAttribute("data-icon", name);
  picture.firstElementChild?.setAttribute("d", ICONS[name]);
}
