"""The digest of a secret, by which the database looks it up."""

import hashlib

__all__ = ["digest"]


def digest(secret: str) -> str:
    """Return the SHA-256 of a secret in hexadecimal; a random uuid needs no salt."""
    return hashlib.sha256(secret.encode()).hexdigest()
