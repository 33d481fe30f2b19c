"""All files of a deployment: those of its server, and those of each site."""

import json
import os
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from importlib.resources import files
from pathlib import Path

import tomli_w
from cryptography.hazmat.primitives import serialization as forms

from pfedfair._util.errors import InputError, option
from pfedfair.engines.flower import consortium, signing
from pfedfair.engines.flower.certificates import check_days, issue, new_key, private_bytes
from pfedfair.engines.flower.consortium import Consortium, check_name, write_request
from pfedfair.engines.flower.processes import APP, SETTINGS, connection

EXPORTS = "".join(f"export {name}={value}\n" for name, value in SETTINGS.items())
TEMPLATES = Path(str(files(__package__) / "templates"))


def init(
    folder: Path,
    host: str = "localhost",
    port: int = 8443,
    inside: int = 8000,
    days: int = 365,
    proxied: bool = True,
    secure_sum: bool = False,
) -> None:
    """Write all files of a server to a new folder; sites are admitted later.

    Parameters
    ----------
    host, port
        Where sites reach the proxy; the certificate is for this name (and for localhost).
    inside
        The SuperLink's port, on loopback.
    proxied
        Without a proxy sites connect to the SuperLink directly: for a test on one machine.
    secure_sum
        Whether runs use secure sums, and sites refuse runs without them.
    """
    _check_port(port)
    if proxied and port == inside:
        taken = option("port", port)
        raise InputError(f"{taken} is the SuperLink's own on the server: choose another.")
    check_days(days)
    if not re.fullmatch(consortium.HOST, host):
        raise InputError(
            f"{option('host')} must be a name such as fl.example.org or an IPv4 address, "
            f"got '{host}'."
        )
    with _new_folder(folder) as made:
        server, offline = made / "server", made / "offline"
        for path in (server, server / "tls", server / "flwr", offline):
            path.mkdir(mode=0o700)
        bundle, signature, signer, signed_by = signing.sign(APP)
        authority, key = new_key(), new_key()
        root, leaf = issue(authority, key.public_key(), (host, "localhost", "127.0.0.1"), days)
        for name, content in (("ca.pem", root), ("server.pem", leaf)):
            write_new(server / "tls" / name, content)
        pkcs8 = forms.PrivateFormat.PKCS8
        write_new(server / "tls" / "server.key", private_bytes(key, pkcs8), 0o600)
        write_new(offline / "ca.key", private_bytes(authority, pkcs8), 0o600)
        write_new(offline / "app.key", signer, 0o600)
        address = f"{host}:{port if proxied else inside}"
        about = Consortium(address, root.decode(), signed_by, secure_sum, {})
        about.write(server / consortium.FILE)
        _fill(server / "start-superlink.sh", 0o700, port=inside)
        _fill(server / "run.sh", 0o700)
        home = folder.absolute() / "server"
        out = tomli_w.dumps({"out": str(home / "run")})
        _fill(server / "run.toml", out=out, secure=str(secure_sum).lower())
        write_new(server / signing.BUNDLE, bundle)
        write_new(server / signing.SIGNATURE, json.dumps(signature))
        known = connection(inside, home / "tls")
        write_new(server / "flwr" / "config.toml", tomli_w.dumps(known))
        if proxied:
            (server / "proxy").mkdir(mode=0o700)
            _fill(server / "proxy" / "nginx.conf", listen=port, port=inside)
        _fill(made / "README.txt")


def join(folder: Path, invitation: Path, site: str, port: int = 9094) -> Path:
    """Write all files of a site to a new folder, with a key of its own; return its request.

    Parameters
    ----------
    invitation
        The server's ``consortium.json``.
    port
        The SuperNode's own port, on the site's loopback.
    """
    check_name(site)
    _check_port(port)
    about = Consortium.read(invitation)
    with _new_folder(folder) as made:
        key = new_key()
        write_new(made / "site.key", private_bytes(key, forms.PrivateFormat.OpenSSH), 0o600)
        write_request(made / f"{site}.csr", site, key)
        # The other sites' keys are believed once they were compared, see `membership.update`.
        replace(about, sites={}).write(made / consortium.FILE)
        write_new(made / "ca.pem", about.authority)
        write_new(made / "trusted.yaml", f"{signing.KEY_ID}: '{about.app_signer}'\n")
        _fill(made / "site.toml", name=site)
        _fill(made / "policy.toml", secure=str(about.secure_sum).lower())
        _fill(made / "start-supernode.sh", 0o700, address=about.address, port=port)
    return folder / f"{site}.csr"


def _check_port(port: int) -> None:
    if not 1 <= port <= 65535:
        raise InputError(f"{option('port')} must be between 1 and 65535, got {port}.")


@contextmanager
def _new_folder(folder: Path) -> Iterator[Path]:
    """Yield a folder whose content is moved to a new `folder` if the block succeeds."""
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise InputError(f"{folder} exists and is not empty: choose another folder.")
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    made = folder / ".new"
    made.mkdir(mode=0o700)
    try:
        yield made
        for path in made.iterdir():
            path.rename(folder / path.name)
    finally:
        shutil.rmtree(made)


def _fill(path: Path, mode: int = 0o644, **words: object) -> None:
    """Write the template of the same name, with these words filled in."""
    text = (TEMPLATES / path.name).read_text(encoding="utf-8")
    write_new(path, text.format(exports=EXPORTS, **words), mode)


def write_new(path: Path, content: bytes | str, mode: int = 0o644) -> None:
    """Write a file that never had wider permissions than `mode`."""
    data = content.encode() if isinstance(content, str) else content
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "wb") as file:
        file.write(data)
