/**
 * Which run a stream is in, as its multivariant playlist tells.
 *
 * The playlist's address is the stream's for ever; what it names changes from run to run. Before
 * the first run there is none (404), an ended run stays named until the next one begins. A video
 * has a folder where a stream has a run, and none before it can be played.
 */

/** The answer of the origin: the name of a run, nothing to play, or no valid answer. */
export type Answer =
  | { kind: "run"; run: string }
  | { kind: "absent" }
  | { kind: "unreachable" };

const TIMEOUT = 8_000; // ms; a playlist is under 2 kB
const ABSENT = new Set([403, 404, 410, 451]);

/** The run in a multivariant playlist: the first segment of the path of its first variant. */
export function runOf(playlist: string): string | null {
  if (!playlist.startsWith("#EXTM3U")) return null;
  const lines = playlist.split("\n").map((line) => line.trim());
  const variant = lines.find((line) => line !== "" && !line.startsWith("#"));
  return variant?.split("/", 1)[0] ?? null;
}

/** Request the multivariant playlist once, bypassing caches. */
export async function ask(address: string): Promise<Answer> {
  try {
    const response = await request(address, "GET");
    if (ABSENT.has(response.status)) return { kind: "absent" };
    const run = response.ok ? runOf(await response.text()) : null;
    return run === null ? { kind: "unreachable" } : { kind: "run", run };
  } catch {
    return { kind: "unreachable" }; // offline, refused or too slow: retried soon
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
      credentials: "same-origin",
      signal: stop.signal,
    });
    // Read completely within the timeout, so that an endless body cannot block the polling.
    return new Response(await response.arrayBuffer(), { status: response.status });
  } finally {
    clearTimeout(timer);
  }
}
