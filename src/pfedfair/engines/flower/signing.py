"""The signed app: sites run no other.

Flower verifies apps that come from its hub. Here the consortium signs its app once, when its
files are made, with a key that is not needed afterwards. The SuperLink stores the app with its
signature, and every site has the public key: sites refuse any other app.
"""

from __future__ import annotations

import base64
import hashlib
import json
import os
import time
import warnings
from pathlib import Path
from typing import Any

from cryptography.hazmat.primitives import serialization as forms
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from pfedfair._util.errors import InputError
from pfedfair._util.files import read_json
from pfedfair.engines.flower import consortium, internals
from pfedfair.engines.flower.processes import CONNECTION

APP_ID = "@pfedfair/pfedfair-app"
KEY_ID = "fpk_consortium"  # the name of the public key at the sites
BUNDLE, SIGNATURE = "app.fab", "app.json"


def sign(app: Path) -> tuple[bytes, dict[str, str], bytes, str]:
    """Bundle and sign an app; return bundle, signature, private and public key."""
    with warnings.catch_warnings():  # of Flower's dependencies
        warnings.simplefilter("ignore", DeprecationWarning)
        bundle = bytes(internals.build_fab_from_disk(app))
    key, now = Ed25519PrivateKey.generate(), int(time.time())
    signed = key.sign(internals.create_message_to_sign(hashlib.sha256(bundle).digest(), now))
    about = {"signed_at": now, "signature": base64.urlsafe_b64encode(signed).decode().rstrip("=")}
    signature = {KEY_ID: json.dumps(about), "valid_license": "Valid"}  # as Flower's hub has it
    private = key.private_bytes(
        forms.Encoding.PEM, forms.PrivateFormat.OpenSSH, forms.NoEncryption()
    )
    public = key.public_key().public_bytes(forms.Encoding.OpenSSH, forms.PublicFormat.OpenSSH)
    return bundle, signature, private, public.decode()


def start_run(server: Path, stream: bool = False) -> int:
    """Start a run of a server's signed app by its ``run.toml``; return the run's number.

    The run waits for all admitted sites if ``run.toml`` does not say for how many.
    """
    os.environ["FLWR_HOME"] = str(server.absolute() / "flwr")
    from httpx import ConnectError

    internals.check()
    name = _store_app(server)
    sites = len(consortium.Consortium.read(server / consortium.FILE).sites)
    if not sites:
        raise InputError(f"{server} has no sites: admit them first, with pfedfair flower admit.")
    config: Any = {"sites": sites} | internals.parse_config_args([str(server / "run.toml")])
    connection = internals.read_superlink_connection(CONNECTION)
    client = internals.init_http_client_from_connection(connection)
    try:
        found = client.StartRun(
            internals.StartRunRequest(
                fab=internals.fab_to_proto(internals.Fab(name, b"", {})),
                override_config=internals.user_config_to_proto(config),
                app_spec=APP_ID,
            )
        )
        if stream:
            internals.start_stream(found.run_id, client)
    except ConnectError as error:
        raise InputError(
            f"The SuperLink of {server} does not run: start start-superlink.sh, then try again."
        ) from error
    finally:
        client.close()
    return int(found.run_id)


def _store_app(server: Path) -> str:
    """Store the signed bundle at the SuperLink; return its name there."""
    content = (server / BUNDLE).read_bytes()
    fab = internals.Fab(hashlib.sha256(content).hexdigest(), content, read_json(server / SIGNATURE))
    federation, task, owner = internals.NOOP_FEDERATION_ID, internals.TaskType, "pfedfair"
    link_state(server).store_app(fab, federation, APP_ID, task.SERVER_APP, owner)
    return str(fab.hash_str)


def link_state(server: Path) -> Any:
    """Return the state of a server's SuperLink (`LinkState`), whether that runs or not."""
    database = server / "link.db"
    database.touch(mode=0o600)
    store, manager = internals.ObjectStoreFactory(str(database)), internals.NoOpFederationManager()
    with warnings.catch_warnings():  # of Flower's dependencies
        warnings.simplefilter("ignore", DeprecationWarning)
        return internals.LinkStateFactory(str(database), manager, store).state()
