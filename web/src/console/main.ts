/** What every page of the console runs. Pages with more have a script of their own in `pages/`. */

import { bindActions } from "./actions";
import { bindDialogs } from "./confirm";
import { bindToasts } from "./dom";
import { bindFields } from "./fields";
import { bindFragments } from "./fragments";
import { bindLink } from "./link";
import { bindLive } from "./live";
import { bindPictures } from "./pictures";
import { bindResume } from "./resume";
import { bindTimes } from "./times";
import { bindUnsaved } from "./unsaved";

bindLink(); // first: requests of the others would send the address
bindFragments();
bindTimes();
bindDialogs();
bindToasts();
bindActions();
bindFields();
bindLive();
bindPictures();
bindResume();
bindUnsaved();
