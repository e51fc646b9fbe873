/** Pictures that change under their address: `data-again="10"` loads one anew every 10 s.
 *
 * They stay as they are for people who prefer reduced motion.
 */

const TICK_MS = 1000;
const STILL = "(prefers-reduced-motion: reduce)";

/** Load such pictures anew while the page is visible. */
export function bindPictures(): void {
  const loaded = new WeakMap<HTMLImageElement, number>();
  setInterval(() => {
    if (document.visibilityState !== "visible" || matchMedia(STILL).matches) return;
    const now = performance.now();
    document.querySelectorAll<HTMLImageElement>("img[data-again]").forEach((picture) => {
      const last = loaded.get(picture);
      if (last === undefined) loaded.set(picture, now);
      else if (now - last >= Number(picture.dataset.again) * 1000) {
        loaded.set(picture, now);
        void load(picture);
      }
    });
  }, TICK_MS);
}

/** Fetch the picture first, so that the old one stays until the new one is there. */
async function load(picture: HTMLImageElement): Promise<void> {
  const source = picture.dataset.source ?? picture.src;
  try {
    const response = await fetch(source, { cache: "no-cache", credentials: "same-origin" });
    if (!response.ok) return;
    const made = URL.createObjectURL(await response.blob());
    // Or every picture would stay in memory.
    picture.addEventListener("load", () => URL.revokeObjectURL(made), { once: true });
    picture.dataset.source = source;
    picture.src = made;
  } catch {
    return; // the old picture stays
  }
}
