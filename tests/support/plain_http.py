"""What a client of plain HTTP trusts: nobody, as it meets no certificate.

To load the system's authorities takes httpx 20 ms of CPU for each client, more than most requests.
"""

import ssl
from typing import Final

__all__ = ["PLAIN"]

PLAIN: Final = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
