"""The digest of a secret, by which the database looks it up."""

import hashlib


def digest(secret: str) -> str:
    """Return the SHA-256 of a secret in hexadecimal; random ones need no salt."""
    # Half a surrogate pair is not UTF-8; such a secret is simply unknown.
    return hashlib.sha256(secret.encode(errors="surrogatepass")).hexdigest()
