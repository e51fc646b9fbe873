/** All words that the console's scripts show, in one place. */

export const WORDS = {
  close: "Close",
  copied: "Copied.",
  notCopied: "The browser did not allow copying: select the text and copy it yourself.",
  failed: "That did not work.",
  unreachable: "The service did not answer. Nothing may have changed; try again.",
  busy: "The service is busy; try again in a moment.",
  changed: "Somebody else changed this meanwhile. What you entered is still here.",
  newer: "Show the newer values",
  overwrite: "Save mine all the same",
  reveal: "Show",
  hide: "Hide",
  lost: "Connection lost: what you see may be old. Trying again…",
  back: "Connected again.",
} as const;

/** The words of the pages of streams. */
export const STREAM_WORDS = {
  time: "Time",
  unknown: "–",
  none: "None",
  perSecond: "a second",
  every: "every",
  mono: "mono",
  stereo: "stereo",
  channels: "channels",
  well: "Well",
  measuring: "Measuring…",
  advice: "Could be better",
  away: "Not connected",
  silent: "Connected, but sends nothing",
  nothingFor: "Nothing has come for",
  unmeasured: "No process that takes encoders answers: nothing is known of them now. Trying again…",
  embedded: "The stream as other pages show it",
  done: "Done.",
  pictureSet: "The slate was set. It is shown from the next encoder on.",
  unreachable: "The service did not answer.",
  selected: (count: number) => (count === 1 ? "1 stream selected" : `${count} streams selected`),
  someFailed: (count: number, reason: string) => `${count} failed. ${reason}`,
  drilled: (to: string, afterMs: number, gapMs: number) =>
    `${to} took over after ${(afterMs / 1000).toFixed(2)} s. ` +
    (gapMs > 0 ? `Viewers missed ${gapMs} ms.` : "Viewers missed nothing."),
} as const;
