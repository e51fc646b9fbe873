"""The engine with the encoder settings of the ffmpeg command that it is compared with.

    python -m bench.ladder.plain live

Same preset, none of our tuning, ffmpeg's own scaler; otherwise the engine as it is.
"""

import sys

from transcode.engine.codec import encode, scaler
from transcode.engine.main import main

# Constants of the engine, which only this comparison changes.
setattr(encode, "PRESET", "veryfast")  # noqa: B010
setattr(encode, "PARAMETERS", "annexb=0:scenecut=0")  # noqa: B010
setattr(encode, "LARGE_PARAMETERS", "")  # noqa: B010
setattr(scaler, "SCALER", {"flags": "bicubic"})  # noqa: B010

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
