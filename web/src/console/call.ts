/** Requests of the console to the API. */

import { BASE, OWN } from "./dom";
import type { Json } from "./form_body";

/** What the API answered; `version` is that of the record, for the next edit. */
export interface Answer {
  readonly status: number;
  readonly body: Json;
  readonly version: string | undefined;
}

/** Send a request to the API as the console; null if it cannot be reached. */
export async function call(
  method: string,
  path: string,
  body?: Json,
  version?: string,
): Promise<Answer | null> {
  const headers: Record<string, string> = { ...OWN };
  if (body !== undefined) headers["Content-Type"] = "application/json";
  if (version) headers["If-Match"] = `"${version}"`;
  try {
    const init: RequestInit = { method, headers, credentials: "same-origin" };
    if (body !== undefined) init.body = JSON.stringify(body);
    const response = await fetch(BASE + path, init);
    const text = await response.text();
    if (response.status === 401) location.reload(); // the session has ended: sign in, and come back
    const version = response.headers.get("ETag")?.replaceAll('"', "");
    return { status: response.status, body: parsed(text), version };
  } catch {
    return null;
  }
}

/** Read JSON; null for what is none. */
export function parsed(text: string): Json {
  try {
    return text ? (JSON.parse(text) as Json) : null;
  } catch {
    return null;
  }
}
