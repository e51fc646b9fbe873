/** One file on its way to being a video: uploaded by tus, then transcoded by the service.
 *
 * An upload goes on where it was, after a pause, a lost connection, or in another visit to the page
 * (its address is kept in the browser's storage until it is done).
 */

import * as tus from "tus-js-client";

import { BASE, OWN } from "./dom";
import { Rate } from "./rate";
import { reasonIn } from "./reasons";
import { VIDEO_WORDS } from "./video_words";

export type TransferState =
  | "waiting" // for its turn
  | "sending"
  | "paused" // by a person
  | "broken" // the connection was lost for long
  | "refused" // by the service: sending it again would not help
  | "arrived" // all of it is there
  | "making"
  | "ready"
  | "failed";

/** Where files go: `endpoint` is the path of a project's uploads, without the base. */
export interface Target {
  readonly endpoint: string;
  /** The number of the video whose file is replaced. */
  readonly replaces?: string;
}

/** What an event of a video holds (docs/broadcaster.md). */
export interface VideoEvent {
  readonly id: number;
  readonly hash: string;
  readonly uploading: boolean;
  readonly transcoding_progress: number;
  readonly transcoding_eta: number;
  readonly completed: boolean;
  readonly failed: boolean;
  readonly version: number;
}

// A proxy in front may limit the size of a body, and what it buffers is lost with the connection.
const CHUNK_BYTES = 64 * 1024 * 1024;
const RETRY_MS = [0, 1000, 3000, 10_000, 30_000];
const SIGNED_OUT = 401;

/** Return an address of the service under the name by which the browser knows it. */
export function here(address: string): string {
  const { pathname, search } = new URL(address, location.href);
  return location.origin + pathname + search;
}

/** The service may know itself by another name than the browser: cookies go to this one. */
const stack: tus.HttpStack = {
  createRequest: (method, url) => tus.defaultOptions.httpStack.createRequest(method, here(url)),
  getName: () => "console",
};

/** A file, and how far it is. `changed` is called after each change. */
export class Transfer {
  state: TransferState = "waiting";
  sent = 0;
  reason = "";
  /** The number of the video, once the service has begun the upload. */
  video = "";
  hash = "";
  progress = 0; // of transcoding, in percent
  eta = 0; // of transcoding, in seconds; 0: not known
  waitsFor = ""; // what needs the machine now, so that nothing is transcoded; "": nothing
  readonly rate = new Rate();
  readonly #upload: tus.Upload;
  readonly #target: Target;
  #version = 0;

  constructor(
    readonly file: File,
    target: Target,
    readonly changed: (transfer: Transfer) => void,
  ) {
    this.#target = target;
    const replaced: Record<string, string> = target.replaces ? { replaces: target.replaces } : {};
    this.#upload = new tus.Upload(file, {
      endpoint: location.origin + BASE + target.endpoint,
      httpStack: stack,
      headers: { ...OWN },
      chunkSize: CHUNK_BYTES,
      retryDelays: RETRY_MS,
      removeFingerprintOnSuccess: true,
      metadata: { filename: file.name, ...replaced },
      fingerprint: () => Promise.resolve(fingerprint(file, target)),
      onProgress: (sent) => this.#progressed(sent),
      onAfterResponse: (_, response) => this.#named(response),
      onSuccess: () => this.#arrived(),
      onError: (error) => this.#failed(error),
    });
  }

  /** Whether the file still has to arrive. */
  get isUnfinished(): boolean {
    return ["waiting", "sending", "paused", "broken"].includes(this.state);
  }

  /** Send the file, from where an earlier visit left it. */
  async start(): Promise<void> {
    this.#become("sending");
    this.rate.reset();
    const [before] = await this.#upload.findPreviousUploads();
    if (this.state !== "sending") return; // paused meanwhile
    if (before && !this.#upload.url) this.#upload.resumeFromPreviousUpload(before);
    this.#upload.start();
  }

  /** Stop sending; what has arrived stays. */
  async pause(): Promise<void> {
    this.#become("paused");
    await this.#upload.abort();
  }

  /** Wait for a turn again, after a pause or a failure. */
  queue(): void {
    this.reason = "";
    this.#become("waiting");
  }

  /** End the upload: what has arrived is deleted, as far as the service can be reached. */
  async cancel(): Promise<void> {
    try {
      await this.#upload.abort(true);
    } catch {
      // It ends by itself, a day after its last byte.
    }
  }

  /** Take in what the service announced, unless it is older than what is known. */
  hear(event: VideoEvent): void {
    if (this.isUnfinished || event.version < this.#version) return;
    this.#version = event.version;
    this.progress = event.transcoding_progress;
    this.eta = event.transcoding_eta;
    this.#become(event.completed ? "ready" : event.failed ? "failed" : this.progress ? "making" : "arrived");
  }

  /** Take in the status that the API answered (`GET /api/videos/{id}/status`). */
  update(state: string, progress: number, eta: number, reason: string, waitsFor = ""): void {
    if (this.isUnfinished) return;
    this.waitsFor = waitsFor;
    this.progress = progress;
    this.eta = eta;
    this.reason = state === "failed" ? reason : "";
    const states: Record<string, TransferState> = {
      completed: "ready",
      failed: "failed",
      transcoding: "making",
    };
    this.#become(states[state] ?? "arrived");
  }

  #progressed(sent: number): void {
    this.sent = sent;
    this.rate.add(sent, performance.now());
    this.changed(this);
  }

  #named(response: tus.HttpResponse): void {
    this.video = response.getHeader("Headend-Video-Id") ?? this.video;
    this.hash = response.getHeader("Headend-Video-Hash") ?? this.hash;
  }

  #arrived(): void {
    this.sent = this.file.size;
    this.#become("arrived");
  }

  #failed(error: Error | tus.DetailedError): void {
    const response = "originalResponse" in error ? error.originalResponse : null;
    const status = response?.getStatus() ?? 0;
    if (status === SIGNED_OUT) this.reason = VIDEO_WORDS.signedOut;
    else this.reason = reasonIn(response?.getBody() ?? "") || VIDEO_WORDS.brokenReason;
    const refused = status >= 400 && status < 500 && ![SIGNED_OUT, 408, 409, 423, 429].includes(status);
    if (refused) void this.#forget();
    this.#become(refused ? "refused" : "broken");
  }

  /** What was refused is gone from the service: nothing of it can go on. */
  async #forget(): Promise<void> {
    const { urlStorage } = tus.defaultOptions;
    const left = await urlStorage.findUploadsByFingerprint(fingerprint(this.file, this.#target));
    await Promise.all(left.map((each) => urlStorage.removeUpload(each.urlStorageKey)));
  }

  #become(state: TransferState): void {
    this.state = state;
    this.changed(this);
  }
}

/** What names a file in the browser's storage, for one purpose. */
export function fingerprint(file: File, target: Target): string {
  const parts = [file.name, file.type, file.size, file.lastModified, target.endpoint];
  return ["headend", ...parts, target.replaces ?? "new"].join("|");
}
