"""What all sites of a consortium know of it, and a site's request to be one of them.

``consortium.json`` goes from the server to the sites; a request, a standard certificate signing
request, goes from a site to the server. Neither is secret.
"""

import base64
import hashlib
import json
import re
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Self

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives import serialization as forms
from cryptography.hazmat.primitives.asymmetric import ec, ed25519
from cryptography.x509.oid import NameOID

from pfedfair._util.errors import InputError, shorten
from pfedfair._util.files import atomic, first_line, read_json, write_json
from pfedfair.engines.flower.certificates import Key

FILE = "consortium.json"
HOST = r"[A-Za-z0-9]([A-Za-z0-9.-]*[A-Za-z0-9])?"
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")


@dataclass(frozen=True)
class Consortium:
    """A server's address, the keys of its authority and of its app's signer, and its sites' keys.

    ``authority`` is a certificate; public keys are in OpenSSH's format, a site's by its name.
    """

    address: str
    authority: str
    app_signer: str
    secure_sum: bool
    sites: dict[str, str]

    @classmethod
    def read(cls, path: Path) -> Self:
        """Read a file that may come from anybody: its texts end up in a site's start script."""
        if not path.exists():
            raise InputError(
                f"There is no file {path}: name the folder or the file that pfedfair flower init "
                "or join made."
            )
        content = read_json(path)
        try:
            made = cls(**content)
            if not re.fullmatch(rf"{HOST}:\d{{1,5}}", made.address):
                raise ValueError("the address is none")
            if made.authority != _pem(x509.load_pem_x509_certificate(made.authority.encode())):
                raise ValueError("the authority's certificate is none")
            if not isinstance(load_public(made.app_signer), ed25519.Ed25519PublicKey):
                raise ValueError("the key of the app's signer is none")
            if not isinstance(made.secure_sum, bool):
                raise ValueError("secure_sum is neither true nor false")
            site_keys(content)
        except (AttributeError, TypeError, ValueError, UnsupportedAlgorithm) as error:
            raise InputError(
                f"{path} is not a {FILE} of pfedfair flower init ({first_line(error)}): ask the "
                "server's operator for it again."
            ) from error
        return made

    def write(self, path: Path) -> None:
        write_json(path, asdict(self))

    def fingerprint(self) -> str:
        """Return a digest of all keys in groups of four digits, to compare by telephone.

        It is the same for everybody who has the same keys, whatever the certificates' dates.
        """
        content = json.dumps([*self.roots(), sorted(self.sites.items())])
        digits = hashlib.sha256(content.encode()).hexdigest()[:40]
        return " ".join(re.findall("....", digits))

    def roots(self) -> tuple[str, str]:
        """Return the public keys of the authority and of the app's signer."""
        key = x509.load_pem_x509_certificate(self.authority.encode()).public_key()
        form = forms.Encoding.DER, forms.PublicFormat.SubjectPublicKeyInfo
        return key.public_bytes(*form).hex(), self.app_signer


def _pem(certificate: x509.Certificate) -> str:
    return certificate.public_bytes(forms.Encoding.PEM).decode()


def check_name(name: str) -> str:
    if not NAME.fullmatch(name):
        raise InputError(
            f"A site's name has up to 64 letters, digits, dots, dashes and underscores, and begins "
            f"with a letter or digit; got '{shorten(name)}'."
        )
    return name


def load_public(text: str) -> Any:
    """Return a public key in OpenSSH's format; refuse a text with anything else."""
    key = forms.load_ssh_public_key(text.encode())
    if not isinstance(key, (ec.EllipticCurvePublicKey, ed25519.Ed25519PublicKey)):
        raise ValueError("a key is of another kind")
    if public_text(key) != text:
        raise ValueError("the text of a key has something else in it")
    return key


def load_private(path: Path) -> Key:
    """Return the private key of a site, in OpenSSH's format."""
    try:
        key = forms.load_ssh_private_key(path.read_bytes(), None)
    except (OSError, ValueError) as error:
        raise InputError(f"{path} is no readable private key ({first_line(error)}).") from error
    if not isinstance(key, Key):
        raise InputError(f"{path} must be an elliptic curve key, as `flower join` makes them.")
    return key


def public_text(key: ec.EllipticCurvePublicKey | ed25519.Ed25519PublicKey) -> str:
    return key.public_bytes(forms.Encoding.OpenSSH, forms.PublicFormat.OpenSSH).decode()


def key_fingerprint(text: str) -> str:
    """Return the fingerprint of a public key as ``ssh-keygen -l`` prints it."""
    digest = forms.ssh_key_fingerprint(load_public(text), hashes.SHA256())
    return f"SHA256:{base64.b64encode(digest).decode().rstrip('=')}"


def site_keys(content: Any) -> dict[str, ec.EllipticCurvePublicKey]:
    """Return the public keys of the sites by their names; every name and every key is one's own."""
    sites = {check_name(name): load_public(text) for name, text in content["sites"].items()}
    distinct = {name.lower() for name in sites}, set(content["sites"].values())
    if not all(isinstance(key, ec.EllipticCurvePublicKey) for key in sites.values()):
        raise ValueError("a site's key is of another kind")
    if min(map(len, distinct)) < len(sites):
        raise ValueError("two sites have one name or one key")
    return sites


def write_request(path: Path, site: str, key: Key) -> None:
    """Write a request: a site's name and its public key, signed by its private key."""
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, site)])
    signed = x509.CertificateSigningRequestBuilder(name).sign(key, hashes.SHA384())
    with atomic(path) as temporary:
        temporary.write_bytes(signed.public_bytes(forms.Encoding.PEM))


def read_request(path: Path) -> tuple[str, str]:
    """Return the name and the public key of a request that its private key has signed."""
    try:
        request = x509.load_pem_x509_csr(path.read_bytes())
        (name,) = request.subject.get_attributes_for_oid(NameOID.COMMON_NAME)
        key, signed = request.public_key(), request.is_signature_valid
        if not isinstance(key, ec.EllipticCurvePublicKey) or key.curve.name != "secp384r1":
            raise ValueError("its key is of another kind")
    except (OSError, ValueError, UnsupportedAlgorithm) as error:
        raise InputError(
            f"{path} is no readable request ({first_line(error)}): ask the site for the file "
            "NAME.csr that pfedfair flower join made."
        ) from error
    if not signed:
        raise InputError(
            f"{path} is forged or damaged: the owner of its public key has not signed it. Ask the "
            "site for it again."
        )
    return check_name(str(name.value)), public_text(key)
