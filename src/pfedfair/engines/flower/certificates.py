"""Certificates of a consortium: its authority's, which sites trust, and its server's."""

import datetime
import ipaddress
from collections.abc import Iterable, Sequence
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives import serialization as forms
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from pfedfair._util.errors import InputError, option
from pfedfair._util.files import atomic, first_line

Key = ec.EllipticCurvePrivateKey
Extensions = Sequence[x509.ExtensionType]
LIFETIMES = 10  # the authority's certificate is valid that many times as long as the server's
WARNING = 30  # days before the end


def new_key() -> Key:
    return ec.generate_private_key(ec.SECP384R1())


def private_bytes(key: Key, form: forms.PrivateFormat) -> bytes:
    return key.private_bytes(forms.Encoding.PEM, form, forms.NoEncryption())


def check_days(days: int) -> None:
    if not 1 <= days <= 36500:
        raise InputError(f"{option('days')} must be between 1 and 36500, got {days}.")


def issue(
    authority: Key, server: ec.EllipticCurvePublicKey, hosts: Iterable[str], days: int
) -> tuple[bytes, bytes]:
    """Return the certificates of the authority and of the server."""
    names: list[x509.GeneralName] = []
    for host in dict.fromkeys(hosts):
        try:
            names.append(x509.IPAddress(ipaddress.ip_address(host)))
        except ValueError:
            names.append(x509.DNSName(host))
    usage = x509.KeyUsage(
        digital_signature=False, content_commitment=False, key_encipherment=False,
        data_encipherment=False, key_agreement=False, key_cert_sign=True, crl_sign=True,
        encipher_only=False, decipher_only=False,
    )  # fmt: skip
    own = authority.public_key()
    root = certificate(
        "consortium", own, authority, LIFETIMES * days,
        [x509.BasicConstraints(ca=True, path_length=0), usage],
        [x509.SubjectKeyIdentifier.from_public_key(own)],
    )  # fmt: skip
    leaf = certificate(
        "server", server, authority, days,
        [x509.BasicConstraints(ca=False, path_length=None)],
        [
            x509.SubjectAlternativeName(names),
            x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]),
            x509.AuthorityKeyIdentifier.from_issuer_public_key(own),
        ],
    )  # fmt: skip
    return root, leaf


def certificate(
    owner: str,
    key: ec.EllipticCurvePublicKey,
    authority: Key,
    days: int,
    critical: Extensions,
    others: Extensions,
) -> bytes:
    """Return a certificate that the consortium's authority has signed."""
    subject, issuer = (
        x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, f"pfedfair {name}")])
        for name in (owner, "consortium")
    )
    now = datetime.datetime.now(datetime.UTC)
    ends = now - datetime.timedelta(hours=1), now + datetime.timedelta(days=days)
    builder = x509.CertificateBuilder(issuer, subject, key, x509.random_serial_number(), *ends)
    for extension in (*critical, *others):
        builder = builder.add_extension(extension, critical=extension in critical)
    return builder.sign(authority, hashes.SHA384()).public_bytes(forms.Encoding.PEM)


def renew(tls: Path, ca_key: Path, days: int) -> str:
    """Renew the certificates in a server's folder ``tls``; return the authority's.

    Both keys stay, so a site's older ``ca.pem`` and the new one trust the same server.
    """
    check_days(days)
    try:
        authority = forms.load_pem_private_key(ca_key.read_bytes(), None)
    except (OSError, ValueError, TypeError) as error:
        why = first_line(error)
        raise InputError(f"{ca_key} is not a readable private key ({why}).") from error
    root, leaf = read(tls / "ca.pem"), read(tls / "server.pem")
    if not isinstance(authority, Key) or authority.public_key() != root.public_key():
        raise InputError(
            f"{ca_key} is not the key of {tls / 'ca.pem'}: name offline/ca.key, which pfedfair "
            "flower init made together with this server."
        )
    server, found = leaf.public_key(), leaf.extensions
    assert isinstance(server, ec.EllipticCurvePublicKey)
    names = found.get_extension_for_class(x509.SubjectAlternativeName).value
    made = issue(authority, server, (str(name.value) for name in names), days)
    for name, content in zip(("ca", "server"), made, strict=True):
        with atomic(tls / f"{name}.pem") as temporary:
            temporary.write_bytes(content)
    return made[0].decode()


def read(path: Path) -> x509.Certificate:
    try:
        return x509.load_pem_x509_certificate(path.read_bytes())
    except (OSError, ValueError) as error:
        why = first_line(error)
        raise InputError(f"{path} is not a readable certificate ({why}).") from error


def check_expiry(path: Path, remedy: str) -> str:
    """Return until when a certificate is valid, and a warning if that is soon.

    Refuse an expired one; `remedy` says what to do.
    """
    end = read(path).not_valid_after_utc
    left = end - datetime.datetime.now(datetime.UTC)
    if left <= datetime.timedelta(0):
        raise InputError(f"{path} expired on {end:%Y-%m-%d}: {remedy}.")
    valid = f"{path.name} is valid until {end:%Y-%m-%d} (days left: {left.days})"
    return f"Warning: {valid}: {remedy}." if left.days < WARNING else f"{valid}."
