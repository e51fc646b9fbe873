/** The page of one video: poster, countries, and another file for it. */

import { bindFilters } from "../filter";
import { bindPoster } from "../poster";
import type { LiveEvent } from "../live";
import { TransferList } from "../transfer_list";

bindFilters();
bindPoster();

const section = document.getElementById("replace");
const input = section?.querySelector<HTMLInputElement>("input[type=file]");
const list = section?.querySelector("[data-part=list]");
const template = document.querySelector<HTMLTemplateElement>("#transfer");
if (section && input && list && template) {
  const { uploads = "", replaces = "" } = section.dataset;
  const transfers = new TransferList(list, template, { endpoint: uploads, replaces }, {
    room: "",
    most: 0,
    // The record has the new file from now on: every part of the page says so.
    done: () => void document.dispatchEvent(new CustomEvent("headend:refresh")),
  });
  input.addEventListener("change", () => {
    transfers.add([...(input.files ?? [])]);
    input.value = "";
  });
  document.getElementById("state")?.addEventListener("headend:event", (event) => {
    transfers.hear((event as CustomEvent<LiveEvent>).detail);
  });
}
