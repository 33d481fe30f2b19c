"""Keys of a secure sum: agreed by two sites, sealed for one, dealt out in shares.

Flower's own primitives (Shamir's shares, elliptic curve key agreement, authenticated encryption).
Its random masks are not used: they depend on 32 bits of a key, which can all be tried.

The keys of a sum are new each time. Where a site has the others' public keys (``peers``), those of
its SuperNode, it takes no key that none of them has signed: then not even the server can put
itself in a site's place.
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
from flwr.common.secure_aggregation.crypto.shamir import combine_shares, create_shares
from flwr.common.secure_aggregation.crypto.symmetric_encryption import (
    decrypt,
    encrypt,
    generate_shared_key,
)

from pfedfair._util.errors import InputError

CURVE = ec.SECP256R1()
LENGTH = 32  # bytes of a secret
INDEX, PADDED = 4, 48  # bytes of a share: whose it is, and as many as the secret with its end


def fresh() -> bytes:
    """A new private key."""
    return _raw(ec.generate_private_key(CURVE))


def public(private: bytes) -> str:
    point = _private(private).public_key()
    return point.public_bytes(forms.Encoding.X962, forms.PublicFormat.CompressedPoint).hex()


def check_public(text: object) -> None:
    """Refuse what is no public key."""
    ec.EllipticCurvePublicKey.from_encoded_point(CURVE, bytes.fromhex(str(text)))


def agreed(private: bytes, other: str) -> bytes:
    """What two sites know, each by its private key and the other's public one."""
    point = ec.EllipticCurvePublicKey.from_encoded_point(CURVE, bytes.fromhex(other))
    return generate_shared_key(_private(private), point)


def mask_key(private: bytes, other: str, session: str, asked: str) -> bytes:
    """The key of the mask that two sites share, if both are asked the same."""
    secret = base64.urlsafe_b64decode(agreed(private, other))
    return hmac.digest(secret, f"mask {session} {asked}".encode(), hashlib.sha256)


def seal(private: bytes, other: str, text: str) -> str:
    """A text that the other site alone can read, and nobody can change."""
    return encrypt(agreed(private, other), text.encode()).decode()


def unseal(private: bytes, other: str, sealed: str) -> str:
    return decrypt(agreed(private, other), sealed.encode()).decode()


def deal(secret: bytes, threshold: int, numbers: Sequence[int]) -> dict[int, str]:
    """A share of a secret for each site; `threshold` of them make it again, fewer tell nothing."""
    shares = create_shares(secret, threshold, len(numbers))
    return {number: share.hex() for number, share in zip(numbers, shares, strict=True)}


def check_share(text: object, number: int, numbers: Iterable[int]) -> None:
    """Refuse what cannot be the share that was dealt to a site, of several."""
    share, place = bytes.fromhex(str(text)), sorted(numbers).index(number) + 1
    if len(share) != INDEX + PADDED or int.from_bytes(share[:INDEX], "little") != place:
        raise ValueError("it has no share that can be its own")


def made_again(shares: Mapping[int, str], threshold: int) -> bytes:
    some = [bytes.fromhex(shares[number]) for number in sorted(shares)[:threshold]]
    secret = combine_shares(some)
    if len(secret) != LENGTH:
        raise ValueError("the shares do not fit")
    return secret


def sign(path: Path, text: str) -> str:
    """A text's signature by the private key of a site, in OpenSSH's format."""
    key = forms.load_ssh_private_key(path.read_bytes(), None)
    if not isinstance(key, ec.EllipticCurvePrivateKey):
        raise InputError(f"{path} must be an elliptic curve key, as `flower init` makes them.")
    return key.sign(text.encode(), ec.ECDSA(hashes.SHA384())).hex()


def signer(folder: Path, text: str, signature: str) -> str | None:
    """Whose public key in a folder has signed a text: the file's name; None, if nobody's."""
    for path in sorted(folder.glob("*.pub")):
        try:
            key = forms.load_ssh_public_key(path.read_bytes())
        except (ValueError, UnsupportedAlgorithm) as error:
            raise InputError(f"{path} is no public key: ask that site for it again.") from error
        if isinstance(key, ec.EllipticCurvePublicKey):
            with suppress(InvalidSignature, ValueError):
                key.verify(bytes.fromhex(signature), text.encode(), ec.ECDSA(hashes.SHA384()))
                return path.stem
    return None


def _private(raw: bytes) -> ec.EllipticCurvePrivateKey:
    return ec.derive_private_key(int.from_bytes(raw), CURVE)


def _raw(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_numbers().private_value.to_bytes(LENGTH)
