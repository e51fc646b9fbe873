/**
 * Playlists of normal latency, reloaded as soon as they have one more segment.
 *
 * They do not offer blocking reloads (RFC 8216bis, 6.2.5.2), so players reload them by the clock and
 * learn of a segment up to 2 s late. The service holds a request with `_HLS_msn` for them, too; hls.js
 * makes such requests where a playlist offers it, so the offer is added on the way to hls.js.
 */

import Hls, {
  type HlsConfig,
  type Loader,
  type LoaderCallbacks,
  type LoaderConfiguration,
  type PlaylistLoaderConstructor,
  type PlaylistLoaderContext,
} from "hls.js";

const OFFER = "#EXT-X-SERVER-CONTROL:CAN-BLOCK-RELOAD=YES\n";

/** Add the offer to a live media playlist that makes none. */
export function offering(text: string): string {
  const live = text.includes("\n#EXT-X-TARGETDURATION:") && !text.includes("\n#EXT-X-ENDLIST");
  if (!live || text.includes("\n#EXT-X-SERVER-CONTROL:")) return text;
  return text.replace("\n#EXT-X-TARGETDURATION:", `\n${OFFER}#EXT-X-TARGETDURATION:`);
}

/** Make the loader of playlists; `holds`: whether the server holds requests, as far as is known. */
export function reloading(holds: () => boolean): PlaylistLoaderConstructor {
  const Plain = Hls.DefaultConfig.loader as new (
    config: HlsConfig,
  ) => Loader<PlaylistLoaderContext>;
  return class extends Plain {
    override load(
      context: PlaylistLoaderContext,
      config: LoaderConfiguration,
      callbacks: LoaderCallbacks<PlaylistLoaderContext>,
    ): void {
      super.load(context, config, {
        ...callbacks,
        onSuccess: (response, ...more) => {
          const { data } = response;
          if (typeof data === "string" && holds()) response.data = offering(data);
          callbacks.onSuccess(response, ...more);
        },
      });
    }
  };
}
