// An upload as pages make it: tus-js-client. Tells each thing that happens as a line of JSON, for
// the test that started it.
//
//     node upload.mjs '{"file": ..., "options": {...}, "abortAt": bytes or null}'
//
// `options` are tus-js-client's own. With `abortAt` the upload is aborted once so much was sent, and
// goes on after that as a page would that was left and opened again.

import { createReadStream } from "node:fs";
import { PassThrough } from "node:stream";

import * as tus from "tus-js-client";

const { file, options, abortAt } = JSON.parse(process.argv[2]);

function tell(kind, facts) {
  process.stdout.write(`${JSON.stringify({ kind, ...facts })}\n`);
}

let aborting = abortAt;

function upload(more) {
  // A pipe: of a file the client knows the length, and sends it all the same.
  const read = createReadStream(file);
  const source = options.uploadLengthDeferred ? read.pipe(new PassThrough()) : read;
  const one = new tus.Upload(source, {
    retryDelays: [200, 500, 1000, 2000, 4000],
    ...options,
    ...more,
    onError(error) {
      tell("error", { message: error.message, status: error.originalResponse?.getStatus() ?? null });
    },
    onSuccess({ lastResponse }) {
      tell("success", { url: one.url, video: lastResponse.getHeader("Headend-Video-Id") });
    },
    onAfterResponse(request, response) {
      tell("answer", {
        method: request.getMethod(),
        status: response.getStatus(),
        offset: response.getHeader("Upload-Offset") ?? null,
      });
    },
    onProgress(sent) {
      if (aborting !== null && sent >= aborting) {
        aborting = null;
        one.abort().then(() => {
          tell("aborted", { url: one.url });
          upload({ uploadUrl: one.url });
        });
      }
    },
  });
  one.start();
}

upload({});
