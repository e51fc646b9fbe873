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
  faults: {
    black: "shows black",
    frozen: "shows a frozen picture",
    silent: "is silent",
  },
  and: " and ",
  unlikeOthers: "unlike the others",
  /** What may be no fault. */
  likeOthers: "like the others",
  unsure: "which may be meant",
  embedded: "The stream as other pages show it",
  pictureSet: "The slate was set. It is shown from the next encoder on.",
  drilled: (to: string, afterMs: number, gapMs: number) =>
    `${to} took over after ${(afterMs / 1000).toFixed(2)} s. ` +
    (gapMs < 0 ? `Viewers saw ${-gapMs} ms twice.` : `Viewers missed ${gapMs ? `${gapMs} ms` : "nothing"}.`),
} as const;

/** How far encoders are apart in the programme. */
export const APART_WORDS = {
  reference: "The others are compared with it",
  notCompared: "Not compared",
  measuring: "Measuring…",
  /** By the reason that the report gives. */
  notKnown: {
    "no sound": "Not known: no sound",
    silent: "Not known: silence",
    steady: "Not known: a steady sound",
    ambiguous: "Not known: it repeats itself",
    different: "Not known: they send different sound",
    outdated: "Not known: pictures have told it too long ago",
  } as Readonly<Record<string, string>>,
  apart: (seconds: number, reference: string, same: boolean): string =>
    same
      ? `In step with ${reference}`
      : `${Math.abs(seconds).toFixed(2)} s ${seconds < 0 ? "ahead of" : "behind"} ${reference}`,
  certain: "Certain",
  likely: "Likely",
  by: { sound: "by the sound", picture: "by the picture" } as Readonly<Record<string, string>>,
  compared: "by comparing them",
  /** The newest comparison found nothing; what was found lasts. */
  before: "As found before",
  now: {
    "no sound": "; no sound now",
    silent: "; silence now",
    steady: "; a steady sound now",
    ambiguous: "; now it repeats itself",
    different: "; now they send different sound",
  } as Readonly<Record<string, string>>,
  drift: (seconds: number, over: number): string => {
    const time = over < 90 ? `${Math.round(over)} s` : `${Math.round(over / 60)} minutes`;
    if (!seconds) return `, steady for ${time}`;
    return `, ${Math.abs(seconds).toFixed(2)} s ${seconds > 0 ? "later" : "earlier"} than ${time} ago`;
  },
  /** What viewers will notice of a switch. */
  nothing: (name: string): string => `${name} takes over where it is; viewers notice nothing.`,
  goesOn: (name: string): string => `${name} takes over, and viewers' programme goes on where it is.`,
  late: (name: string, behind: number, waited: number, twice: number): string => {
    const wait = waited ? [`get nothing new for up to about ${shortly(waited)}`] : [];
    const again = twice < 0.05 ? [] : [`see about ${shortly(twice)} twice`];
    return `${name} is ${shortly(behind)} behind: viewers ${[...wait, ...again].join(", and ")}.`;
  },
  mayJump: (keyframes: number | null): string =>
    "It is not known how far the encoders are apart: for viewers the programme may jump, and up to " +
    `${keyframes === null ? "" : `${shortly(keyframes / 2)}, `}half the time between two keyframes` +
    `${keyframes === null ? "" : ","} is shown twice or lost.`,
  differ: "Their pictures are set differently, so players may stumble for a moment.",
} as const;

function shortly(seconds: number): string {
  return `${seconds.toFixed(1).replace(/\.0$/, "")} s`;
}

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
