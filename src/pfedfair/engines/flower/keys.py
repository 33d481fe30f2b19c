"""Keys of a secure sum: key agreement, encryption, secret sharing, signatures.

These are Flower's primitives (Shamir's shares, elliptic curve key agreement, authenticated
encryption). Its random masks are not used: they depend on 32 bits of a key, which can be searched.

The keys of a sum are new each time. Where a site has the public keys of the others' SuperNodes
(``peers``), it takes no key that none of them has signed: then not even the server can impersonate
a site.
"""

import base64
import hashlib
import hmac
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives import serialization as forms
from cryptography.hazmat.primitives.asymmetric import ec

from pfedfair._util.errors import InputError
from pfedfair._util.files import read_json
from pfedfair.engines.flower.consortium import load_private, site_keys
from pfedfair.engines.flower.internals import (
    combine_shares,
    create_shares,
    generate_shared_key,
)
from pfedfair.engines.flower.internals import (
    decrypt as unseal,
)
from pfedfair.engines.flower.internals import (
    encrypt as seal,
)

CURVE = ec.SECP256R1()
LENGTH = 32  # bytes of a secret
INDEX, PADDED = 4, 48  # bytes of a share: its index, and the padded secret


def new_private_key() -> bytes:
    """Return a new private key."""
    return _raw(ec.generate_private_key(CURVE))


def public(private: bytes) -> str:
    point = _private(private).public_key()
    return point.public_bytes(forms.Encoding.X962, forms.PublicFormat.CompressedPoint).hex()


def check_public(text: object) -> None:
    """Raise unless a text is a public key."""
    ec.EllipticCurvePublicKey.from_encoded_point(CURVE, bytes.fromhex(str(text)))


def shared_key(private: bytes, other: str) -> bytes:
    """Return the shared key of two sites, from one's private and the other's public key."""
    point = ec.EllipticCurvePublicKey.from_encoded_point(CURVE, bytes.fromhex(other))
    return bytes(generate_shared_key(_private(private), point))


def mask_key(private: bytes, other: str, session: str, digest: str) -> bytes:
    """Return the key of the mask that two sites share if their orders have the same digest.

    It depends on both public keys: who copies another's (in a different encoding, or its negative)
    has the same shared key with a third site, and two equal masks could cancel in its numbers.
    """
    secret = base64.urlsafe_b64decode(shared_key(private, other))
    pair = " ".join(sorted((public(private), other)))
    return hmac.digest(secret, f"mask {pair} {session} {digest}".encode(), hashlib.sha256)


def encrypt(private: bytes, other: str, text: str) -> str:
    """Encrypt a text for the other site, and authenticate it."""
    return str(seal(shared_key(private, other), text.encode()).decode())


def decrypt(private: bytes, other: str, sealed: str) -> str:
    return str(unseal(shared_key(private, other), sealed.encode()).decode())


def make_shares(secret: bytes, threshold: int, numbers: Sequence[int]) -> dict[int, str]:
    """Return a share of a secret for each site; `threshold` of them reconstruct it."""
    shares = create_shares(secret, threshold, len(numbers))
    return {number: share.hex() for number, share in zip(numbers, shares, strict=True)}


def check_share(text: object, number: int, numbers: Iterable[int]) -> None:
    """Raise unless a text can be the share of one of several sites."""
    share, index = bytes.fromhex(str(text)), sorted(numbers).index(number) + 1
    if len(share) != INDEX + PADDED or int.from_bytes(share[:INDEX], "little") != index:
        raise ValueError("it has no share that can be its own")


def reconstruct(shares: Mapping[int, str], threshold: int) -> bytes:
    enough = [bytes.fromhex(shares[number]) for number in sorted(shares)[:threshold]]
    secret: bytes = combine_shares(enough)
    if len(secret) != LENGTH:
        raise ValueError("the shares do not fit")
    return secret


def sign(path: Path, text: str) -> str:
    """Sign a text with the private key of a site, in OpenSSH's format."""
    return load_private(path).sign(text.encode(), ec.ECDSA(hashes.SHA384())).hex()


def sign_once(private: bytes, text: str) -> str:
    """Sign a text with a key that was made for some sums."""
    return _private(private).sign(text.encode(), ec.ECDSA(hashes.SHA256())).hex()


def is_signed(other: str, text: str, signature: object) -> bool:
    """Return whether the owner of a public key has signed a text, see `sign_once`."""
    key = ec.EllipticCurvePublicKey.from_encoded_point(CURVE, bytes.fromhex(other))
    try:
        key.verify(bytes.fromhex(str(signature)), text.encode(), ec.ECDSA(hashes.SHA256()))
    except (InvalidSignature, ValueError):
        return False
    return True


def signer(path: Path, text: str, signature: str) -> str | None:
    """Return the site whose public key in a ``consortium.json`` has signed a text, or None."""
    try:
        sites = site_keys(read_json(path))
    except (AttributeError, KeyError, TypeError, ValueError, UnsupportedAlgorithm) as error:
        raise InputError(
            f"{path} has no readable public keys: take it in again with pfedfair flower update."
        ) from error
    for name, key in sites.items():
        with suppress(InvalidSignature, ValueError):
            key.verify(bytes.fromhex(signature), text.encode(), ec.ECDSA(hashes.SHA384()))
            return name
    return None


def _private(raw: bytes) -> ec.EllipticCurvePrivateKey:
    return ec.derive_private_key(int.from_bytes(raw), CURVE)


def _raw(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_numbers().private_value.to_bytes(LENGTH)
