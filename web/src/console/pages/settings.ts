/** The settings of a project: new tokens shown once, and the picture of the slate. */

import { sendPicture } from "../send_file";
import { bindSecrets } from "../secret";
import { VIDEO_WORDS } from "../video_words";

bindSecrets();

document.addEventListener("change", (event) => {
  const input = event.target;
  if (!(input instanceof HTMLInputElement) || input.dataset.sends === undefined) return;
  const [method = "", path = ""] = input.dataset.sends.split(" ");
  const { field = "", refreshes = null } = input.dataset;
  const file = input.files?.[0];
  input.value = "";
  if (file) void send(method, path, field, file, refreshes);
});

async function send(
  method: string,
  path: string,
  field: string,
  file: File,
  refreshes: string | null,
): Promise<void> {
  if (await sendPicture(method, path, field, file, VIDEO_WORDS.pictureSet))
    document.dispatchEvent(new CustomEvent("headend:refresh", { detail: refreshes }));
}
