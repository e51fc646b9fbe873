/** The API's report of what a stream's encoders send (docs/encoder-report.md), as far as we show it. */

import { call } from "./call";

/** One number for each of the last whole seconds, oldest first; `newest` numbers the last one. */
export interface Seconds {
  readonly newest: number;
  readonly bit_rates: readonly number[];
  readonly frames: readonly number[];
  readonly keyframe_seconds: readonly (number | null)[];
}

export interface Slot {
  readonly slot: string;
  readonly connected_seconds: number;
  readonly video: {
    readonly codec: string;
    readonly profile: string | null;
    readonly width: number;
    readonly height: number;
    readonly configuration: string;
  } | null;
  readonly audio: {
    readonly codec: string;
    readonly rate: number;
    readonly channels: number;
  } | null;
  readonly network: { readonly silent_seconds: number };
  readonly seconds: Seconds;
  readonly advice: readonly string[];
  readonly alignment: {
    readonly reference: string;
    readonly behind_ms: number | null;
    readonly confidence: number;
    readonly method: string;
    readonly reason: string | null;
  } | null;
  readonly faults: readonly {
    readonly kind: "black" | "frozen" | "silent";
    readonly verdict: "fault" | "both" | "unknown";
  }[];
}

export interface Report {
  readonly live: boolean;
  readonly on_air: string | null;
  readonly slots: readonly Slot[];
  readonly advice: readonly string[];
}

/** Fetch the report of a stream; null if nothing is known of its encoders now. */
export async function fetchReport(stream: string): Promise<Report | null> {
  const answer = await call("GET", `/api/streams/${stream}/ingest`);
  return answer?.status === 200 ? (answer.body as unknown as { data: Report }).data : null;
}
