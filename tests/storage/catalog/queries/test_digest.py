"""The digest of a secret, against what sha256sum prints."""

from storage.catalog.queries.digest import digest


def test_a_digest_is_that_of_the_secrets_bytes() -> None:
    # printf abc | sha256sum; printf 'ș' | sha256sum
    assert digest("abc") == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
    assert digest("ș") != digest("s")
    assert len(digest("")) == 64
