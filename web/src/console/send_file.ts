/** Sends a picture to the API as a form: a poster, a slate. */

import { alarm, BASE, OWN, toast } from "./dom";
import { reasonIn } from "./reasons";
import { VIDEO_WORDS } from "./video_words";

const MOST_BYTES = 10_485_760;

/** Send a picture in the field `name`; says what became of it, and returns whether it was taken. */
export async function sendPicture(
  method: string,
  path: string,
  name: string,
  picture: Blob,
  words: string,
): Promise<boolean> {
  if (picture.size > MOST_BYTES) {
    alarm(VIDEO_WORDS.pictureTooLarge);
    return false;
  }
  const form = new FormData();
  form.append(name, picture, picture instanceof File ? picture.name : "picture.jpg");
  toast(VIDEO_WORDS.sendingPoster);
  try {
    const init = { method, body: form, headers: { ...OWN }, credentials: "same-origin" as const };
    const response = await fetch(BASE + path, init);
    if (response.ok) toast(words);
    else alarm(reasonIn(await response.text()) || VIDEO_WORDS.unreachable);
    return response.ok;
  } catch {
    alarm(VIDEO_WORDS.unreachable);
    return false;
  }
}
