"""All files of a deployment: certificates, keys, start scripts, the proxy's configuration."""

from __future__ import annotations

import datetime
import ipaddress
import os
import re
import shutil
from importlib.resources import files
from pathlib import Path

import tomli_w
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
)
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from pfedfair.engines.flower.processes import APP, CONNECTION, SETTINGS
from pfedfair.errors import InputError

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
) -> None:
    """Write everything that a server and its sites need into a new folder.

    Parameters
    ----------
    host, port
        Where sites reach the proxy; the certificate is for this name (and for localhost).
    inside
        The SuperLink's own port, on loopback.
    proxied
        Without a proxy sites go to the SuperLink itself: for trying out on one machine.
    node_ports
        A port for each site's own process, on its loopback; otherwise 9094 and those after it.
    """
    if sites < 1:
        raise InputError(f"--sites must be at least 1, got {sites}.")
    if not 1 <= port <= 65535:
        raise InputError(f"--port must be between 1 and 65535, got {port}.")
    if proxied and port == inside:
        raise InputError(f"--port {port} is the SuperLink's own on the server: choose another.")
    if not 1 <= days <= 36500:
        raise InputError(f"--days must be between 1 and 36500, got {days}.")
    if not re.fullmatch(r"[A-Za-z0-9]([A-Za-z0-9.-]*[A-Za-z0-9])?", host):
        raise InputError(
            f"--host must be a name such as fl.example.org or an IPv4 address, got '{host}'."
        )
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise InputError(f"{folder} exists and is not empty: choose another folder.")
    names = [f"site-{i + 1}" for i in range(sites)]
    server = folder / "server"
    for path in (folder, server, server / "tls", server / "sites", server / "flwr"):
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
    authority, certificate = _authority(days)
    _write(server / "tls" / "ca.key", _private(authority, PrivateFormat.PKCS8), 0o600)
    ca = certificate.public_bytes(Encoding.PEM)
    _write(server / "tls" / "ca.pem", ca)
    key = ec.generate_private_key(ec.SECP384R1())
    _write(server / "tls" / "server.key", _private(key, PrivateFormat.PKCS8), 0o600)
    signed = _server_certificate(key, authority, certificate, host, days)
    _write(server / "tls" / "server.pem", signed.public_bytes(Encoding.PEM))
    for i, name in enumerate(names):
        site = folder / name
        site.mkdir(mode=0o700)
        own = ec.generate_private_key(ec.SECP384R1())
        _write(site / "site.key", _private(own, PrivateFormat.OpenSSH), 0o600)
        public = own.public_key().public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH)
        _write(server / "sites" / f"{name}.pub", public + b"\n")
        _write(site / "ca.pem", ca)
        _fill(site / "site.toml", name=name)
        address = f"{host}:{port}" if proxied else f"{host}:{inside}"
        node_port = node_ports[i] if node_ports else 9094 + i
        _fill(site / "start-supernode.sh", 0o700, address=address, port=node_port)
    _fill(server / "start-superlink.sh", 0o700, port=inside)
    _fill(server / "register-sites.sh", 0o700, connection=CONNECTION)
    _fill(server / "run.sh", 0o700, connection=CONNECTION)
    out = tomli_w.dumps({"out": str((server / "run").absolute())})
    _fill(server / "run.toml", sites=sites, out=out)
    shutil.copytree(APP, server / "app")
    roots = str((server / "tls" / "ca.pem").absolute())
    where = {"address": f"127.0.0.1:{inside}", "root-certificates": roots}
    known = {"superlink": {"default": CONNECTION, CONNECTION: where}}
    _write(server / "flwr" / "config.toml", tomli_w.dumps(known))
    if proxied:
        (server / "proxy").mkdir(mode=0o700)
        _fill(server / "proxy" / "nginx.conf", listen=port, port=inside)
    _fill(folder / "README.txt")


def _fill(path: Path, mode: int = 0o644, **words: object) -> None:
    """Write the template of a file's name, with these words in it."""
    text = (TEMPLATES / path.name).read_text()
    _write(path, text.format(exports=EXPORTS, **words), mode)


def _write(path: Path, content: bytes | str, mode: int = 0o644) -> None:
    """Write a file that never had wider permissions than `mode`."""
    data = content.encode() if isinstance(content, str) else content
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "wb") as file:
        file.write(data)


def _private(key: ec.EllipticCurvePrivateKey, form: PrivateFormat) -> bytes:
    return key.private_bytes(Encoding.PEM, form, NoEncryption())


def _authority(days: int) -> tuple[ec.EllipticCurvePrivateKey, x509.Certificate]:
    key = ec.generate_private_key(ec.SECP384R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "pfedfair consortium")])
    usage = x509.KeyUsage(
        digital_signature=False, content_commitment=False, key_encipherment=False,
        data_encipherment=False, key_agreement=False, key_cert_sign=True, crl_sign=True,
        encipher_only=False, decipher_only=False,
    )  # fmt: skip
    builder = (
        _builder(name, name, key, days)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(usage, critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
    )
    return key, builder.sign(key, hashes.SHA384())


def _server_certificate(
    key: ec.EllipticCurvePrivateKey,
    authority: ec.EllipticCurvePrivateKey,
    issuer: x509.Certificate,
    host: str,
    days: int,
) -> x509.Certificate:
    names: list[x509.GeneralName] = []
    for one in dict.fromkeys([host, "localhost", "127.0.0.1"]):
        try:
            names.append(x509.IPAddress(ipaddress.ip_address(one)))
        except ValueError:
            names.append(x509.DNSName(one))
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "pfedfair server")])
    usage = x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH])
    known = x509.AuthorityKeyIdentifier.from_issuer_public_key(authority.public_key())
    builder = (
        _builder(subject, issuer.subject, key, days)
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(usage, critical=False)
        .add_extension(known, critical=False)
    )
    return builder.sign(authority, hashes.SHA384())


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePrivateKey, days: int
) -> x509.CertificateBuilder:
    now = datetime.datetime.now(datetime.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(hours=1))
        .not_valid_after(now + datetime.timedelta(days=days))
    )
