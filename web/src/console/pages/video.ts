/** The page of one video: poster, countries, and another file for it. */

import { ask } from "../confirm";
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
    const files = [...(input.files ?? [])];
    const { question = "", agree } = input.dataset;
    input.value = "";
    void ask(question, agree).then((agreed) => {
      if (agreed) transfers.add(files);
    });
  });
  addEventListener("beforeunload", (event) => {
    if (transfers.transfers.some(({ state }) => state === "sending")) event.preventDefault();
  });
  document.getElementById("state")?.addEventListener("headend:event", (event) => {
    transfers.hear((event as CustomEvent<LiveEvent>).detail);
  });
}
