"""The engine with a live stream's rate control: what holding the quality saves shows beside it.

python -m bench.vod.fixed stretch ...
"""

import sys

from transcode.engine.codec import encode
from transcode.engine.main import main

# A constant of the engine, which nobody but this comparison changes: no rate factor at all.
setattr(encode, "FILE_FACTORS", ("-1", "-1"))  # noqa: B010

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
