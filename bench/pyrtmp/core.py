"""The cost of decoding with pyrtmp: reads a file of chunks as its server does, counts CPU time.

Standard output carries one line of JSON: `ms_per_mb`, the median of three readings.

Usage: core.py FILE CHUNK_BYTES
"""

import asyncio
import json
import statistics
import sys
import time
from pathlib import Path

from pyrtmp import StreamClosedException
from pyrtmp.messages.factory import MessageFactory
from pyrtmp.session_manager import SessionManager

__all__ = ["main", "read"]

READ_BYTES = 64 << 10


async def read(data: bytes, chunk_bytes: int) -> float:
    """Return the ms of CPU per MB of one reading."""
    reader = asyncio.StreamReader()
    session = SessionManager(reader=reader, writer=None, reader_chunk_size=chunk_bytes)
    began = time.process_time()
    for at in range(0, len(data), READ_BYTES):
        reader.feed_data(data[at : at + READ_BYTES])
    reader.feed_eof()
    try:
        async for chunk in session.read_chunks_from_stream():
            MessageFactory.from_chunk(chunk)
    except StreamClosedException:  # the end of the file
        pass
    return (time.process_time() - began) * 1e9 / len(data)


def main() -> None:
    """Parse the file and its chunk size from the command line."""
    data, chunk_bytes = Path(sys.argv[1]).read_bytes(), int(sys.argv[2])
    costs = [asyncio.run(read(data, chunk_bytes)) for _ in range(3)]
    print(json.dumps({"ms_per_mb": statistics.median(costs)}))


if __name__ == "__main__":
    main()
