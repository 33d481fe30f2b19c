"""All files of a deployment: certificates, keys, start scripts, the proxy's configuration."""

import datetime
import ipaddress
import json
import os
import re
from collections.abc import Sequence
from importlib.resources import files
from pathlib import Path

import tomli_w
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives import serialization as forms
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from pfedfair._util.errors import InputError, option
from pfedfair.engines.flower import signing
from pfedfair.engines.flower.processes import APP, CONNECTION, SETTINGS, connection
from pfedfair.engines.site.masking import MIN_SITES

Key = ec.EllipticCurvePrivateKey
Extensions = Sequence[x509.ExtensionType]
EXPORTS = "".join(f"export {name}={value}\n" for name, value in SETTINGS.items())
TEMPLATES = Path(str(files(__package__) / "templates"))


def create(
    folder: Path,
    sites: int,
    host: str = "localhost",
    port: int = 8443,
    inside: int = 8000,
    days: int = 365,
    proxied: bool = True,
    node_ports: list[int] | None = None,
    secure_sum: bool = False,
) -> None:
    """Write all files of a server and its sites to a new folder.

    Parameters
    ----------
    host, port
        Where sites reach the proxy; the certificate is for this name (and for localhost).
    inside
        The SuperLink's port, on loopback.
    proxied
        Without a proxy sites connect to the SuperLink directly: for a test on one machine.
    node_ports
        A port for each site's process, on its loopback; otherwise 9094 and those after it.
    secure_sum
        Whether runs use secure sums, and sites refuse runs without them.
    """
    if sites < 1:
        raise InputError(f"{option('sites')} must be at least 1, got {sites}.")
    if not 1 <= port <= 65535:
        raise InputError(f"{option('port')} must be between 1 and 65535, got {port}.")
    if proxied and port == inside:
        taken = option("port", port)
        raise InputError(f"{taken} is the SuperLink's own on the server: choose another.")
    if not 1 <= days <= 36500:
        raise InputError(f"{option('days')} must be between 1 and 36500, got {days}.")
    if not re.fullmatch(r"[A-Za-z0-9]([A-Za-z0-9.-]*[A-Za-z0-9])?", host):
        raise InputError(
            f"{option('host')} must be a name such as fl.example.org or an IPv4 address, "
            f"got '{host}'."
        )
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise InputError(f"{folder} exists and is not empty: choose another folder.")
    if secure_sum and sites < MIN_SITES:
        raise InputError(
            f"{option('secure-sum')} needs at least {MIN_SITES} sites, got {sites}: of a sum of "
            "two, each would know the other's numbers."
        )
    names = [f"site-{i + 1}" for i in range(sites)]
    server = folder / "server"
    for path in (folder, server, server / "tls", server / "sites", server / "flwr"):
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
    bundle, signature, signer, signed_by = signing.sign(APP)
    authority, certificate = _authority(days)
    ca = certificate.public_bytes(forms.Encoding.PEM)
    key = ec.generate_private_key(ec.SECP384R1())
    signed = _server_certificate(key, authority, host, days).public_bytes(forms.Encoding.PEM)
    for name, private, public in (("ca", authority, ca), ("server", key, signed)):
        _write(server / "tls" / f"{name}.key", _private(private, forms.PrivateFormat.PKCS8), 0o600)
        _write(server / "tls" / f"{name}.pem", public)
    for i, name in enumerate(names):
        site = folder / name
        site.mkdir(mode=0o700)
        site_key = ec.generate_private_key(ec.SECP384R1())
        _write(site / "site.key", _private(site_key, forms.PrivateFormat.OpenSSH), 0o600)
        public = site_key.public_key().public_bytes(
            forms.Encoding.OpenSSH, forms.PublicFormat.OpenSSH
        )
        _write(server / "sites" / f"{name}.pub", public + b"\n")
        _write(site / "ca.pem", ca)
        _write(site / "trusted.yaml", f"{signing.KEY_ID}: '{signed_by}'\n")
        _fill(site / "site.toml", name=name)
        _fill(site / "policy.toml", secure=str(secure_sum).lower())
        address = f"{host}:{port}" if proxied else f"{host}:{inside}"
        node_port = node_ports[i] if node_ports else 9094 + i
        _fill(site / "start-supernode.sh", 0o700, address=address, port=node_port)
    for name in names:
        (folder / name / "peers").mkdir(mode=0o700)
        for path in (server / "sites").iterdir():
            _write(folder / name / "peers" / path.name, path.read_bytes())
    _fill(server / "start-superlink.sh", 0o700, port=inside)
    _fill(server / "register-sites.sh", 0o700, connection=CONNECTION)
    _fill(server / "run.sh", 0o700, connection=CONNECTION)
    out = tomli_w.dumps({"out": str((server / "run").absolute())})
    _fill(server / "run.toml", sites=sites, out=out, secure=str(secure_sum).lower())
    _write(server / signing.BUNDLE, bundle)
    _write(server / signing.SIGNATURE, json.dumps(signature))
    (folder / "offline").mkdir(mode=0o700)
    _write(folder / "offline" / "app.key", signer, 0o600)
    known = connection(inside, server.absolute() / "tls")
    _write(server / "flwr" / "config.toml", tomli_w.dumps(known))
    if proxied:
        (server / "proxy").mkdir(mode=0o700)
        _fill(server / "proxy" / "nginx.conf", listen=port, port=inside)
    _fill(folder / "README.txt")


def _fill(path: Path, mode: int = 0o644, **words: object) -> None:
    """Write the template of the same name, with these words filled in."""
    text = (TEMPLATES / path.name).read_text(encoding="utf-8")
    _write(path, text.format(exports=EXPORTS, **words), mode)


def _write(path: Path, content: bytes | str, mode: int = 0o644) -> None:
    """Write a file that never had wider permissions than `mode`."""
    data = content.encode() if isinstance(content, str) else content
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "wb") as file:
        file.write(data)


def _private(key: Key, form: forms.PrivateFormat) -> bytes:
    return key.private_bytes(forms.Encoding.PEM, form, forms.NoEncryption())


def _authority(days: int) -> tuple[Key, x509.Certificate]:
    key = ec.generate_private_key(ec.SECP384R1())
    usage = x509.KeyUsage(
        digital_signature=False, content_commitment=False, key_encipherment=False,
        data_encipherment=False, key_agreement=False, key_cert_sign=True, crl_sign=True,
        encipher_only=False, decipher_only=False,
    )  # fmt: skip
    critical = [x509.BasicConstraints(ca=True, path_length=0), usage]
    identifier = x509.SubjectKeyIdentifier.from_public_key(key.public_key())
    return key, _certificate("consortium", key, key, days, critical, [identifier])


def _server_certificate(key: Key, authority: Key, host: str, days: int) -> x509.Certificate:
    names: list[x509.GeneralName] = []
    for name in dict.fromkeys([host, "localhost", "127.0.0.1"]):
        try:
            names.append(x509.IPAddress(ipaddress.ip_address(name)))
        except ValueError:
            names.append(x509.DNSName(name))
    usage = x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH])
    known = x509.AuthorityKeyIdentifier.from_issuer_public_key(authority.public_key())
    critical = [x509.BasicConstraints(ca=False, path_length=None)]
    others = [x509.SubjectAlternativeName(names), usage, known]
    return _certificate("server", key, authority, days, critical, others)


def _certificate(
    owner: str, key: Key, authority: Key, days: int, critical: Extensions, others: Extensions
) -> x509.Certificate:
    """Return a certificate signed by the consortium's authority."""
    subject, issuer = (
        x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, f"pfedfair {name}")])
        for name in (owner, "consortium")
    )
    now = datetime.datetime.now(datetime.UTC)
    ends = now - datetime.timedelta(hours=1), now + datetime.timedelta(days=days)
    number = x509.random_serial_number()
    builder = x509.CertificateBuilder(issuer, subject, key.public_key(), number, *ends)
    for extension in (*critical, *others):
        builder = builder.add_extension(extension, critical=extension in critical)
    return builder.sign(authority, hashes.SHA384())
