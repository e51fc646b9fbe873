/** The keys that viewers know from YouTube: which key does what. */

/** What a key asks for; `amount` is in seconds, shares of 1, or steps. */
export type Action =
  | { does: "toggle" | "mute" | "full" | "captions" | "picture" | "start" | "end" }
  | { does: "seek"; amount: number }
  | { does: "louder"; amount: number }
  | { does: "part"; amount: number } // to this share of the time line
  | { does: "frame"; amount: number }
  | { does: "speed"; amount: number };

/** What has the focus: it may have keys of its own. */
export type Focus = "none" | "button" | "slider" | "text";

/** The part of a `KeyboardEvent` that counts. */
export interface Key {
  key: string;
  ctrlKey: boolean;
  altKey: boolean;
  metaKey: boolean;
}

const ACTIONS: ReadonlyMap<string, Action> = new Map<string, Action>([
  [" ", { does: "toggle" }],
  ["k", { does: "toggle" }],
  ["j", { does: "seek", amount: -10 }],
  ["l", { does: "seek", amount: 10 }],
  ["m", { does: "mute" }],
  ["f", { does: "full" }],
  ["c", { does: "captions" }],
  ["i", { does: "picture" }],
  ["ArrowLeft", { does: "seek", amount: -5 }],
  ["ArrowRight", { does: "seek", amount: 5 }],
  ["ArrowUp", { does: "louder", amount: 0.1 }],
  ["ArrowDown", { does: "louder", amount: -0.1 }],
  ["Home", { does: "start" }],
  ["End", { does: "end" }],
  [",", { does: "frame", amount: -1 }],
  [".", { does: "frame", amount: 1 }],
  ["<", { does: "speed", amount: -1 }],
  [">", { does: "speed", amount: 1 }],
]);

const MOVES = new Set(["ArrowLeft", "ArrowRight", "ArrowUp", "ArrowDown", "Home", "End"]);

/** Return what a key asks for, or null: nothing, or the focused element's own. */
export function actionOf({ key, ctrlKey, altKey, metaKey }: Key, focus: Focus): Action | null {
  if (ctrlKey || altKey || metaKey || focus === "text") return null;
  if (focus === "button" && key === " ") return null;
  if (focus === "slider" && MOVES.has(key)) return null;
  if (/^[0-9]$/.test(key)) return { does: "part", amount: Number(key) / 10 };
  return ACTIONS.get(key.length === 1 ? key.toLowerCase() : key) ?? null;
}

/** Return what kind of element has the focus. */
export function focusOf(target: EventTarget | null): Focus {
  if (!(target instanceof Element)) return "none";
  if (target.closest("input[type=range]")) return "slider";
  if (target.closest("input, textarea, select, [contenteditable]")) return "text";
  return target.closest("button, a, summary") ? "button" : "none";
}
