"""All files of a deployment: certificates, keys, start scripts, the proxy's configuration."""

from __future__ import annotations

import datetime
import ipaddress
import os
import re
import shutil
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
HEAD = f"""#!/bin/sh
set -eu
umask 077
cd "$(dirname "$0")"
{EXPORTS}"""

SUPERLINK = """# Reachable from this machine only: sites come through the proxy (proxy/nginx.conf).
export FLWR_HOME="$PWD/flwr"
exec flower-superlink --host 127.0.0.1 --port {port} \\
    --ssl-ca-certfile tls/ca.pem --ssl-certfile tls/server.pem --ssl-keyfile tls/server.key \\
    --enable-supernode-auth --database link.db
"""
REGISTER = """# Once, while the SuperLink runs: from then on it knows the sites by their keys.
export FLWR_HOME="$PWD/flwr"
failed=0
for key in sites/*.pub; do
    if said=$(flwr supernode register "$key" {connection} 2>&1); then
        echo "$key is registered."
    else
        case "$said" in
            *"already in use"*) echo "$key is registered already." ;;
            *) echo "$key: $said" >&2; failed=1 ;;
        esac
    fi
done
exit $failed
"""
RUN = """# Starts a run with the settings in run.toml, or goes on with the one in its folder.
export FLWR_HOME="$PWD/flwr"
exec flwr run app {connection} --run-config run.toml "$@"
"""
SUPERNODE = """# Again and again: after a power cut or a lost line the site comes back by itself.
while true; do
    flower-supernode --superlink {address} --root-certificates ca.pem \\
        --auth-supernode-private-key site.key --node-config site.toml \\
        --host 127.0.0.1 --port {port} &
    node=$!
    trap 'kill $node; wait $node; exit 0' INT TERM
    wait $node || true
    sleep 10
done
"""
SITE = """# What this site tells its own SuperNode; nothing of it is sent, but for the site's name.
site = "{name}"
data = "site.parquet"  # or .csv; paths are relative to this folder
# test = "test.parquet"  # without it a quarter of the rows is held out
label = "y"
sensitive = "s"
drop = ""  # columns that are no inputs, with commas between
categorical = ""  # columns of numbers that are codes
state-dir = "state"
audit-dir = "sent"  # a copy of everything that leaves this site
share-metrics = false  # true: tell the server this site's accuracy and DDP at the end
"""
RUN_TOML = """# Settings of a run; docs/flower.md has all of them.
method = "pfedfair"
rounds = 20
sites = {sites}
min-sites = {sites}
local-rounds = 2
"""
NGINX = """# The only door to the outside: sites may fetch and bring messages, nothing else.
# Without it whoever has ca.pem could start runs, and a run is code that sites execute.
# Try it with: nginx -p "$PWD" -c nginx.conf -e error.log
daemon off;
pid nginx.pid;
error_log error.log;
events {{}}
http {{
    access_log off;
    client_body_temp_path body; proxy_temp_path proxy; fastcgi_temp_path fastcgi;
    uwsgi_temp_path uwsgi; scgi_temp_path scgi;
    server {{
        listen {listen} ssl;
        ssl_certificate ../tls/server.pem;
        ssl_certificate_key ../tls/server.key;
        ssl_protocols TLSv1.2 TLSv1.3;
        client_max_body_size 0;
        location /v1/fleet/ {{
            proxy_pass https://127.0.0.1:{port};
            proxy_ssl_trusted_certificate ../tls/ca.pem;
            proxy_ssl_verify on;
            proxy_ssl_name localhost;
            proxy_http_version 1.1;
            proxy_request_buffering off;
            proxy_read_timeout 300s;
        }}
        location / {{ return 403; }}  # /v1/control, /v1/runtime
    }}
}}
"""
README = """What is in here, and who gets what

server/   stays on the server. tls/ca.key signs certificates: keep it off line if you can.
site-*/   one folder for each site. site.key is the site's private key: bring it there by a safe
          way and delete it here; or let the site make its own and send you the .pub file:
              ssh-keygen -t ecdsa -b 384 -m RFC4716 -N '' -f site.key

On the server:  server/start-superlink.sh, server/proxy (nginx), once server/register-sites.sh
At a site:      put site.parquet into its folder, look at site.toml, then ./start-supernode.sh
A run:          server/run.sh --stream
"""


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
        _write(site / "site.toml", SITE.format(name=name))
        address = f"{host}:{port}" if proxied else f"{host}:{inside}"
        node_port = node_ports[i] if node_ports else 9094 + i
        script = HEAD + 'export FLWR_HOME="$PWD/flwr"\n'
        script += SUPERNODE.format(address=address, port=node_port)
        _write(site / "start-supernode.sh", script, 0o700)
    _write(server / "start-superlink.sh", HEAD + SUPERLINK.format(port=inside), 0o700)
    _write(server / "register-sites.sh", HEAD + REGISTER.format(connection=CONNECTION), 0o700)
    _write(server / "run.sh", HEAD + RUN.format(connection=CONNECTION), 0o700)
    out = {"out": str((server / "run").absolute())}
    _write(server / "run.toml", RUN_TOML.format(sites=sites) + tomli_w.dumps(out))
    shutil.copytree(APP, server / "app")
    roots = str((server / "tls" / "ca.pem").absolute())
    where = {"address": f"127.0.0.1:{inside}", "root-certificates": roots}
    known = {"superlink": {"default": CONNECTION, CONNECTION: where}}
    _write(server / "flwr" / "config.toml", tomli_w.dumps(known))
    if proxied:
        (server / "proxy").mkdir(mode=0o700)
        _write(server / "proxy" / "nginx.conf", NGINX.format(listen=port, port=inside))
    _write(folder / "README.txt", README)


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
