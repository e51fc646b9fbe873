"""Stream keys, and the slots of a stream that publishers send to."""

import hmac
import re
import secrets
import string
import uuid

import msgspec

PublicHash = str

PRIMARY_APPLICATION = "live"
BACKUP_APPLICATION = "live-backup-"

_MASK = "********"
_HASH_LENGTH = 12
_ALPHABET = string.digits + string.ascii_letters
_HASH = re.compile(r"[0-9A-Za-z]{12}")
_UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}", re.IGNORECASE)


def new_hash() -> PublicHash:
    """Return a new public identifier: 12 random characters, about 71 bits."""
    return "".join(secrets.choice(_ALPHABET) for _ in range(_HASH_LENGTH))


def is_hash(text: str) -> bool:
    """Return whether a text has the form of a public identifier."""
    return _HASH.fullmatch(text) is not None


class StreamKey(msgspec.Struct, frozen=True, kw_only=True, repr_omit_defaults=True):
    """An encoder's credentials: `<hash>_<uuid>`, or only `<uuid>`.

    `hash` is public (empty if only the uuid was given), `secret` is the uuid in lower case. The
    secret never appears in `repr`, a log or an error.
    """

    hash: PublicHash
    secret: str

    def __repr__(self) -> str:
        return f"StreamKey({self.hash or '?'}_...)"

    __str__ = __repr__

    @property
    def text(self) -> str:
        """The key as entered in an encoder; to be shown to the owner only."""
        return f"{self.hash}_{self.secret}" if self.hash else self.secret

    @property
    def masked(self) -> "StreamKey":
        """The key with its secret replaced by asterisks, for callers that may not publish."""
        return StreamKey(hash=self.hash, secret=_MASK)

    def matches(self, secret: str) -> bool:
        """Compare secrets in constant time."""
        return hmac.compare_digest(self.secret.encode(), secret.lower().encode())

    @classmethod
    def parse(cls, text: str) -> "StreamKey | None":
        """Return the key in `text`, or None if it does not have the form of a key."""
        head, underscore, tail = text.partition("_")
        if not underscore:
            head, tail = "", text
        elif not _HASH.fullmatch(head):
            return None
        return cls(hash=head, secret=tail.lower()) if _UUID.fullmatch(tail) else None

    @classmethod
    def new(cls, hash_: PublicHash) -> "StreamKey":
        """Return a key with a new secret for the stream with that hash."""
        return cls(hash=hash_, secret=str(uuid.uuid4()))


class Slot(msgspec.Struct, frozen=True, order=True):
    """An ingest address of a stream: 0 is the primary, n is `live-backup-n`."""

    number: int

    @property
    def application(self) -> str:
        """The RTMP application of this slot."""
        return PRIMARY_APPLICATION if self.number == 0 else f"{BACKUP_APPLICATION}{self.number}"

    def __str__(self) -> str:
        return "primary" if self.number == 0 else f"backup-{self.number}"

    @classmethod
    def of_application(cls, application: str) -> "Slot | None":
        """Return the slot of an application, or None for an unknown application."""
        if application == PRIMARY_APPLICATION:
            return cls(0)
        number = application.removeprefix(BACKUP_APPLICATION)
        # Canonical numbers only: "01" and "1" must not both name the same slot.
        if number == application or not re.fullmatch(r"[1-9][0-9]{0,5}", number):
            return None
        return cls(int(number))
