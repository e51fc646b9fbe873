"""`python -m transcode.engine`: see `transcode.engine.main`."""

import sys

from transcode.engine.main import main

sys.exit(main(sys.argv[1:]))
