"""The engine with a live stream's rate control, to compare constant quality with.

python -m bench.vod.fixed span ...
"""

import sys

from transcode.engine.codec import encode
from transcode.engine.main import main

# A constant of the engine, which only this comparison changes: no rate factor.
setattr(encode, "FILE_FACTORS", ("-1", "-1"))  # noqa: B010

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
