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
  behind: "behind",
  ahead: "ahead",
  /** By the reason that the report gives. */
  notAligned: {
    "no sound": "Not known: no sound",
    silent: "Not known: silence",
    steady: "Not known: a steady sound",
    ambiguous: "Not known: it repeats itself",
    different: "They send different sound",
  } as Readonly<Record<string, string>>,
  /** What an encoder shows while another one of its stream does not. */
  faults: {
    black: "Shows black, unlike the others",
    frozen: "Its picture stands still, unlike the others",
    silent: "Its sound is silent, unlike the others",
  },
  embedded: "The stream as other pages show it",
  pictureSet: "The slate was set. It is shown from the next encoder on.",
  drilled: (to: string, afterMs: number, gapMs: number) =>
    `${to} took over after ${(afterMs / 1000).toFixed(2)} s. ` +
    (gapMs > 0 ? `Viewers missed ${gapMs} ms.` : "Viewers missed nothing."),
} as const;

/** What a list shows: the words for one and for several. */
export type Noun = readonly [string, string];

/** The words of lists in which several records are changed at once. */
export const BULK_WORDS = {
  stream: ["stream", "streams"],
  video: ["video", "videos"],
  unreachable: "The service did not answer.",
  selected: (number: number, noun: Noun): string => `${counted(number, noun)} selected`,
  changing: (at: number, all: number): string => `${at} of ${all}…`,
  done: (number: number, noun: Noun, deed: string): string => `${counted(number, noun)} ${deed}.`,
  partly: (done: number, all: number, noun: Noun, deed: string, reason: string): string =>
    `${done} of ${counted(all, noun)} ${deed}. ${reason}`,
} as const;

function counted(number: number, [one, several]: Noun): string {
  return `${number} ${number === 1 ? one : several}`;
}
