/** Addresses with a part that only an answer of the API knows. */

import type { Json } from "./form_body";

/** Fill `{stream.id}` with what an answer holds there. */
export function filled(template: string, body: Json): string {
  return template.replace(/\{([\w.]+)\}/g, (_, path: string) => {
    let at: Json | undefined = body;
    for (const key of path.split("."))
      at = at !== null && typeof at === "object" && !Array.isArray(at) ? at[key] : undefined;
    return encodeURIComponent(typeof at === "string" || typeof at === "number" ? at : "");
  });
}
