/**
 * Which run a stream is in, as its multivariant playlist tells.
 *
 * The playlist's address is the stream's for ever; what it names changes from run to run. Before
 * the first run there is none (404), an ended run stays named until the next one begins. A video
 * has a folder where a stream has a run, and none before it can be played.
 */

/** What the origin answered: a run by its name, nothing to play, or no sensible answer at all. */
export type Answer =
  | { kind: "run"; run: string }
  | { kind: "absent" }
  | { kind: "unreachable" };

const TIMEOUT = 8_000; // ms; a playlist is under 2 kB
const ABSENT = new Set([403, 404, 410, 451]);

/** The run that a multivariant playlist names: the first part of its first variant's address. */
export function runOf(playlist: string): string | null {
  if (!playlist.startsWith("#EXTM3U")) return null;
  const lines = playlist.split("\n").map((line) => line.trim());
  const variant = lines.find((line) => line !== "" && !line.startsWith("#"));
  return variant?.split("/", 1)[0] ?? null;
}

/** Ask for the multivariant playlist once, past every cache. */
export async function ask(address: string): Promise<Answer> {
  try {
    const response = await request(address, "GET");
    if (ABSENT.has(response.status)) return { kind: "absent" };
    const run = response.ok ? runOf(await response.text()) : null;
    return run === null ? { kind: "unreachable" } : { kind: "run", run };
  } catch {
    return { kind: "unreachable" }; // offline, refused, too slow: asked again soon
  }
}

/**
 * Why the page itself is no longer offered, if it is not: an owner may take a stream back while it
 * plays, or leave this viewer's country out.
 */
export async function refusal(page: string): Promise<"gone" | "blocked" | null> {
  try {
    const { status } = await request(page, "HEAD");
    if (status === 404) return "gone";
    return status === 451 ? "blocked" : null;
  } catch {
    return null;
  }
}

async function request(address: string, method: string): Promise<Response> {
  const stop = new AbortController();
  const timer = setTimeout(() => stop.abort(), TIMEOUT);
  try {
    const response = await fetch(address, {
      method,
      cache: "no-store",
      credentials: "omit",
      signal: stop.signal,
    });
    // Read whole within the time, so that a body that never ends does not hang the asking.
    return new Response(await response.arrayBuffer(), { status: response.status });
  } finally {
    clearTimeout(timer);
  }
}
