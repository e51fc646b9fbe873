/** The pages that play: one player, and the page around the frame may control it. */

import type Hls from "hls.js";

import type { Fault } from "./engine";
import { bindFrame } from "./frame";
import { HeadendPlayer } from "./player";
import type { State } from "./state";

/** State exposed to tests; the page itself does not read it. */
interface Hook {
  readonly hls: Hls | null;
  readonly video: HTMLVideoElement | null;
  readonly run: string | null;
  readonly stalls: number;
  readonly faults: readonly Fault[];
  state(): State;
}

declare global {
  interface Window {
    headend?: Hook;
  }
}

const player = document.querySelector("headend-player");
if (player instanceof HeadendPlayer) {
  bindFrame(player);
  // The page around it has the colour of the player, too.
  const accent = player.style.getPropertyValue("--accent");
  if (accent) document.documentElement.style.setProperty("--accent", accent);
  window.headend = {
    get video() {
      return player.video;
    },
    get hls() {
      return player.hls;
    },
    get run() {
      return player.run;
    },
    get stalls() {
      return player.stalls;
    },
    get faults() {
      return player.faults;
    },
    state: () => player.state,
  };
}
