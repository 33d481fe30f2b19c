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
from typing import TYPE_CHECKING, Any

from cryptography.hazmat.primitives import serialization as forms
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from pfedfair._util.errors import InputError
from pfedfair._util.files import read_json
from pfedfair.engines.flower import consortium
from pfedfair.engines.flower.processes import CONNECTION

if TYPE_CHECKING:
    from flwr.server.superlink.linkstate import LinkState

APP_ID = "@pfedfair/pfedfair-app"
KEY_ID = "fpk_consortium"  # the name of the public key at the sites
BUNDLE, SIGNATURE = "app.fab", "app.json"


def sign(app: Path) -> tuple[bytes, dict[str, str], bytes, str]:
    """Bundle and sign an app; return bundle, signature, private and public key."""
    from flwr.cli.build import build_fab_from_disk
    from flwr.supercore.primitives.asymmetric_ed25519 import create_message_to_sign

    with warnings.catch_warnings():  # of Flower's dependencies
        warnings.simplefilter("ignore", DeprecationWarning)
        bundle = build_fab_from_disk(app)
    key, now = Ed25519PrivateKey.generate(), int(time.time())
    signed = key.sign(create_message_to_sign(hashlib.sha256(bundle).digest(), now))
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
    from flwr.cli.flower_config import read_superlink_connection
    from flwr.cli.log import start_stream
    from flwr.cli.utils import init_http_client_from_connection
    from flwr.common.config import parse_config_args
    from flwr.common.serde import fab_to_proto, user_config_to_proto
    from flwr.proto.control_pb2 import StartRunRequest
    from flwr.supercore.fab import Fab
    from httpx import ConnectError

    name = _store_app(server)
    sites = len(consortium.Consortium.read(server / consortium.FILE).sites)
    if not sites:
        raise InputError(f"{server} has no sites: admit them first, with pfedfair flower admit.")
    config: Any = {"sites": sites} | parse_config_args([str(server / "run.toml")])
    client = init_http_client_from_connection(read_superlink_connection(CONNECTION))
    try:
        found = client.StartRun(
            StartRunRequest(
                fab=fab_to_proto(Fab(name, b"", {})),
                override_config=user_config_to_proto(config),
                app_spec=APP_ID,
            )
        )
        if stream:
            start_stream(found.run_id, client)
    except ConnectError as error:
        raise InputError(
            f"The SuperLink of {server} does not run: start start-superlink.sh, then try again."
        ) from error
    finally:
        client.close()
    return int(found.run_id)


def _store_app(server: Path) -> str:
    """Store the signed bundle at the SuperLink; return its name there."""
    from flwr.supercore.constant import NOOP_FEDERATION_ID, TaskType
    from flwr.supercore.fab import Fab

    content = (server / BUNDLE).read_bytes()
    fab = Fab(hashlib.sha256(content).hexdigest(), content, read_json(server / SIGNATURE))
    owner = "pfedfair"
    link_state(server).store_app(fab, NOOP_FEDERATION_ID, APP_ID, TaskType.SERVER_APP, owner)
    return fab.hash_str


def link_state(server: Path) -> LinkState:
    """Return the state of a server's SuperLink, whether that runs or not."""
    from flwr.server.superlink.linkstate import LinkStateFactory
    from flwr.supercore.object_store import ObjectStoreFactory
    from flwr.superlink.federation import NoOpFederationManager

    database = server / "link.db"
    database.touch(mode=0o600)
    store = ObjectStoreFactory(str(database))
    with warnings.catch_warnings():  # of Flower's dependencies
        warnings.simplefilter("ignore", DeprecationWarning)
        return LinkStateFactory(str(database), NoOpFederationManager(), store).state()
