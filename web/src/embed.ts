/**
 * `/embed.js` on a stranger's page: puts the player's frame after its own script tag.
 *
 *     <script async src="https://video.example/embed.js" data-stream="HASH"></script>
 *
 * `data-video` names a video in the same way, `data-title` what a screen reader says of the frame,
 * and `data-shape` the shape of the picture: 16/9 where none is given.
 * Styles are set through the object model, so a page with a strict policy needs only `frame-src`.
 */

// Full screen is left out: `allowfullscreen` says it to every browser, and with both named
// Chromium warns in the host page's console.
const LEAVE = "autoplay; picture-in-picture; encrypted-media";

function insert(script: HTMLScriptElement): void {
  const { stream, video, title, shape } = script.dataset;
  const hash = stream || video || "";
  if (!/^[0-9A-Za-z]+$/.test(hash)) {
    console.error("embed.js: data-stream or data-video must name what to play");
    return;
  }
  const frame = document.createElement("iframe");
  // Relative to the script, so that a service below a path of its host works too.
  frame.src = new URL(`embed/${hash}`, script.src).href;
  frame.title = title || "Video player";
  frame.allow = LEAVE;
  frame.allowFullscreen = true;
  frame.loading = "lazy";
  frame.referrerPolicy = "strict-origin-when-cross-origin";
  Object.assign(frame.style, { width: "100%", aspectRatio: shape || "16 / 9", border: "0" });
  script.after(frame);
}

if (document.currentScript instanceof HTMLScriptElement) insert(document.currentScript);
