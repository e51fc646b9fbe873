"""A TLS context that trusts no authority, for clients of plain HTTP.

Loading the system's authorities takes httpx 20 ms of CPU per client, more than most requests take.
"""

import ssl
from typing import Final

PLAIN: Final = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
