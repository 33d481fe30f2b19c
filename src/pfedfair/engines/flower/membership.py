"""The sites of a consortium: admitted, revoked, with other keys; at the server and at a site.

``consortium.json`` on the server is the list of sites. Flower's own list is made equal to it.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

from cryptography.hazmat.primitives import serialization as forms

from pfedfair._util.errors import InputError, known, option
from pfedfair._util.files import atomic, first_line, write_text
from pfedfair.engines.flower import certificates, internals, signing
from pfedfair.engines.flower.certificates import new_key, private_bytes
from pfedfair.engines.flower.consortium import (
    FILE,
    Consortium,
    key_fingerprint,
    load_private,
    load_public,
    public_text,
    read_request,
    write_request,
)
from pfedfair.engines.flower.provision import write_new

KEY, NEXT = "site.key", "next.key"


def with_requests(server: Path, requests: Iterable[Path], replacing: bool = False) -> Consortium:
    """Return a server's consortium with the sites of these requests; nothing is written.

    A name that is taken is refused unless `replacing`; a key that is taken, or was revoked, always.
    """
    found = Consortium.read(server / FILE)
    nodes = _state(server).get_node_info()
    revoked = {node.public_key for node in nodes if node.status == "unregistered"}
    for path in requests:
        name, key = read_request(path)
        taken = {other.lower(): other for other in found.sites}.get(name.lower())
        owner = next((other for other, own in found.sites.items() if own == key), None)
        if owner is not None and owner != name:
            raise InputError(
                f"{path} has the key of site '{owner}': each site needs a key of its own, made "
                "with pfedfair flower join."
            )
        if taken is not None and owner is None and not (replacing and taken == name):
            raise InputError(
                f"{path}: there is a site '{taken}' with another key. If that site has a new key, "
                f"say {option('replace')}; otherwise choose another name."
            )
        if _flower_bytes(key) in revoked:
            raise InputError(
                f"{path}: this key of '{name}' was revoked. Make a new one at the site, with "
                "pfedfair flower rotate, and send its request."
            )
        found = replace(found, sites={**found.sites, name: key})
    return found


def without(server: Path, name: str) -> Consortium:
    """Return a server's consortium without a site; nothing is written."""
    found = Consortium.read(server / FILE)
    known("site", name, found.sites)
    return replace(found, sites={n: key for n, key in found.sites.items() if n != name})


def register(server: Path, changed: Consortium | None = None) -> None:
    """Write a changed consortium; make Flower's list of sites, on or off, equal to it.

    Flower looks a key up for every message: a site that is gone is refused at its next one.
    """
    if changed is not None:
        changed.write(server / FILE)
    found = changed or Consortium.read(server / FILE)
    new, state = {_flower_bytes(key): name for name, key in found.sites.items()}, _state(server)
    for node in state.get_node_info():
        if node.status == "unregistered":
            continue
        if new.get(node.public_key) == node.name:
            del new[node.public_key]
        else:
            state.delete_node(node.owner_aid, node.node_id)
    owner = internals.NOOP_FLWR_AID, internals.NOOP_ACCOUNT_NAME
    for key, name in new.items():
        try:
            state.create_node(*owner, key, internals.HEARTBEAT_DEFAULT_INTERVAL, name=name)
        except ValueError as error:
            raise InputError(
                f"The key of site '{name}' in {server / FILE} was revoked: revoke the site, and "
                "admit it with a new key."
            ) from error


def _state(server: Path) -> Any:
    if not (server / signing.BUNDLE).exists():
        raise InputError(
            f"{server} is not a server's folder: name the folder 'server' that pfedfair flower "
            "init made."
        )
    return signing.link_state(server)


def _flower_bytes(key: str) -> bytes:
    """Return a public key as Flower stores it."""
    found: bytes = internals.public_key_to_bytes(load_public(key))
    return found


def renew(server: Path, ca_key: Path, days: int) -> None:
    """Renew the certificates of a server with the authority's key."""
    found = Consortium.read(server / FILE)
    authority = certificates.renew(server / "tls", ca_key, days)
    replace(found, authority=authority).write(server / FILE)


def rotate(site: Path) -> Path:
    """Make a site's next key and a request for it; the key in use stays until the next is admitted.

    Done again, it makes the request of the same key again.
    """
    name = site_name(site)
    path, request = site / NEXT, site / f"{name}.csr"
    if not path.exists():
        with atomic(path) as temporary:
            write_new(temporary, private_bytes(new_key(), forms.PrivateFormat.OpenSSH), 0o600)
    write_request(request, name, load_private(path))
    return request


def with_update(site: Path, path: Path) -> tuple[Consortium, list[str]]:
    """Return the consortium of a file from the server, and what is new in it; write nothing."""
    before, after, name = Consortium.read(site / FILE), Consortium.read(path), site_name(site)
    if before.roots() != after.roots():
        raise InputError(
            f"{path} is of another consortium: its authority or the signer of its app has another "
            "key. If the server was set up anew, join it with a new folder."
        )
    own, has = _own(site), after.sites.get(name)
    if has not in own:
        what = f"has another key for '{name}', {key_fingerprint(has)}" if has else f"lacks '{name}'"
        raise InputError(
            f"{path} {what}: send {site / f'{name}.csr'} to the server's operator and ask for the "
            f"{FILE} that has your key, {key_fingerprint(own[-1])}."
        )
    changes = []
    for other in sorted({*before.sites, *after.sites}):
        old, new = before.sites.get(other), after.sites.get(other)
        if old != new:
            what = "revoked" if new is None else "new" if old is None else "new key"
            changes.append(f"{what}: {other}  {key_fingerprint(new or str(old))}")
    return after, changes


def update(site: Path, changed: Consortium) -> bool:
    """Take in a consortium from `with_update`; return whether the site has its next key now."""
    key = changed.sites[site_name(site)]
    rotated = key != _own(site)[0]
    if rotated:
        (site / NEXT).replace(site / KEY)
    write_text(site / "ca.pem", changed.authority)
    changed.write(site / FILE)
    return rotated


def site_name(site: Path) -> str:
    try:
        return str(tomllib.loads((site / "site.toml").read_text(encoding="utf-8"))["site"])
    except (OSError, ValueError, KeyError) as error:
        raise InputError(
            f"{site} is not the folder of a site: name the one that pfedfair flower join made "
            f"({first_line(error)})."
        ) from error


def _own(site: Path) -> list[str]:
    """Return the public keys of a site: the one in use, and the next one, if there is any."""
    paths = [site / KEY, *(p for p in [site / NEXT] if p.exists())]
    return [public_text(load_private(path).public_key()) for path in paths]


def status(folder: Path) -> list[str]:
    """Return lines on a server or a site: its sites, keys, and how long certificates are valid.

    Refuse an expired certificate, and a site that is not admitted.
    """
    found = Consortium.read(folder / FILE)
    if (folder / "tls").exists():
        remedy = f"pfedfair flower renew {folder.resolve()} --ca-key offline/ca.key"
        papers = {folder / "tls" / "server.pem": remedy, folder / "tls" / "ca.pem": remedy}
    else:
        name, own = site_name(folder), _own(folder)
        if found.sites.get(name) != own[0]:
            raise InputError(
                f"Site '{name}' is not admitted: send {folder / f'{name}.csr'} to the server's "
                f"operator, and take in the {FILE} that comes back with pfedfair flower update."
            )
        remedy = f"ask the server's operator for the new {FILE}, then pfedfair flower update"
        papers = {folder / "ca.pem": remedy}
    keys = [f"{key_fingerprint(key)}  {name}" for name, key in sorted(found.sites.items())]
    total = f"All keys together: {found.fingerprint()} (the same at the server and at every site)"
    ends = [certificates.check_expiry(path, remedy) for path, remedy in papers.items()]
    return [f"{len(keys)} sites of {found.address}:", *keys, total, *ends]
