"""Which clusters are joined: against Ray's own central process, with and without a token."""

import ipaddress
import os
import socket
import subprocess
import sys
import time
from contextlib import contextmanager, suppress
from importlib.util import find_spec
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import serialization as forms
from cryptography.hazmat.primitives.asymmetric import ec

import pfedfair as pff
from pfedfair.engines.flower import certificates as made
from pfedfair.engines.ray import gate, token_settings
from pfedfair.engines.ray.broker import _only_here

OURS, OTHERS = "a" * 64, "b" * 64


@pytest.fixture(autouse=True)
def nothing_set(monkeypatch, tmp_path):
    for name in ("RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH", "RAY_AUTH_MODE", "RAY_USE_TLS"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))


@contextmanager
def central(folder, **settings):
    """Ray's central process, to which all others of a cluster report; yield its address."""
    pytest.importorskip("ray")
    program = Path(find_spec("ray").origin).parent / "core/src/ray/gcs/gcs_server"
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [
        str(program), f"--log_dir={folder}", "--config_list=e30=", f"--gcs_server_port={port}",
        "--metrics-agent-port=-1", "--node-ip-address=127.0.0.1", "--session-name=x",
    ]  # fmt: skip
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    with subprocess.Popen(command, env={"PATH": os.environ["PATH"], **settings}, **quiet) as one:
        try:
            end = time.monotonic() + 60
            while time.monotonic() < end and one.poll() is None:
                with suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
                    break
                time.sleep(0.02)
            yield f"127.0.0.1:{port}"
        finally:
            one.kill()


def test_a_cluster_without_a_token_is_refused(tmp_path, monkeypatch):
    monkeypatch.setenv("RAY_AUTH_TOKEN", OURS)  # even for who has one
    wanted = r"127.0.0.1:\d+ asks for no token.*RAY_AUTH_MODE=token"
    with central(tmp_path) as address, pytest.raises(pff.InputError, match=wanted):
        gate.check_cluster(address)


def test_only_the_clusters_own_token_opens_it(tmp_path, monkeypatch):
    known = {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": OURS}
    with central(tmp_path, **known) as address:
        with pytest.raises(pff.InputError, match="token is missing: set RAY_AUTH_TOKEN"):
            gate.check_cluster(address)
        monkeypatch.setenv("RAY_AUTH_TOKEN", OTHERS)
        with pytest.raises(pff.InputError, match="does not take this token") as why:
            gate.check_cluster(address)
        assert OTHERS not in str(why.value)
        monkeypatch.setenv("RAY_AUTH_TOKEN", OURS)
        assert gate.check_cluster(address) == known
        monkeypatch.delenv("RAY_AUTH_TOKEN")
        (tmp_path / "kept").write_text(f"{OURS}\n")
        monkeypatch.setenv("RAY_AUTH_TOKEN_PATH", str(tmp_path / "kept"))
        assert gate.check_cluster(address) == known
        assert _only_here(address)
    with pytest.raises(pff.InputError, match=f"No Ray cluster answers at {address}"):
        gate.check_cluster(address)


def test_a_cluster_of_our_own_has_a_new_token_each_time():
    pytest.importorskip("ray")
    one, two = gate.check_cluster("local"), gate.check_cluster("local")
    assert one["RAY_AUTH_MODE"] == "token"
    assert one["RAY_AUTH_TOKEN"] != two["RAY_AUTH_TOKEN"]
    assert len(token_settings()["RAY_AUTH_TOKEN"]) == 64


@pytest.mark.parametrize("address", ["", "here", "host:", ":6379", "ray://host:10001", "host:x"])
def test_what_is_no_address_is_refused(address):
    pytest.importorskip("ray")
    with pytest.raises(pff.InputError, match="cluster takes HOST:PORT"):
        gate.check_cluster(address)


def test_who_has_no_ray_learns_what_to_install(monkeypatch):
    monkeypatch.setattr(gate, "find_spec", lambda name: None)
    with pytest.raises(pff.InputError, match=r"needs the package 'ray': pip install 'pfedfair\[cl"):
        gate.check_cluster("local")


def certificates(folder):
    """Files of an authority, and of a machine of a cluster: the settings of Ray's TLS."""
    authority = made.new_key()
    own, _ = made.issue(authority, made.new_key().public_key(), ["localhost"], 1)
    key = ec.generate_private_key(ec.SECP256R1())
    host = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))])
    critical = [x509.BasicConstraints(ca=False, path_length=None)]
    signed = made.certificate("machine", key.public_key(), authority, 1, critical, [host])
    content = {
        "RAY_TLS_CA_CERT": own,
        "RAY_TLS_SERVER_CERT": signed,
        "RAY_TLS_SERVER_KEY": made.private_bytes(key, forms.PrivateFormat.PKCS8),
    }
    for name, text in content.items():
        (folder / name).write_bytes(text)
    return {"RAY_USE_TLS": "1"} | {name: str(folder / name) for name in content}


def test_a_cluster_with_certificates_is_asked_with_ours(tmp_path, monkeypatch):
    known = {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": OURS}
    papers = certificates(tmp_path)
    monkeypatch.setenv("RAY_AUTH_TOKEN", OURS)
    with central(tmp_path, **known, **papers) as address:
        with pytest.raises(pff.InputError, match="No Ray cluster answers"):
            gate.check_cluster(address)
        for name, path in papers.items():
            monkeypatch.setenv(name, path)
        assert gate.check_cluster(address) == known
        monkeypatch.setenv("RAY_AUTH_TOKEN", OTHERS)
        with pytest.raises(pff.InputError, match="does not take this token"):
            gate.check_cluster(address)


NOBODY = """
import sys
from ray import cloudpickle
from pfedfair.engines.ray import broker
cloudpickle.register_pickle_by_value(broker)
sent = cloudpickle.dumps(broker.at_worker)
del broker
for name in [name for name in sys.modules if name.startswith("pfedfair")]:
    del sys.modules[name]
sys.modules["pfedfair"] = None  # as on a machine that has it not
kind, what = cloudpickle.loads(sent)("pfedfair.any:work", b"", ("", [None]), {}, b"", [])
assert kind == "unready", kind
assert "cannot load pfedfair (" in what, what
"""


def test_a_machine_without_pfedfair_can_say_so():
    pytest.importorskip("ray")
    subprocess.run([sys.executable, "-c", NOBODY], check=True, timeout=60)


def test_certificates_are_files(monkeypatch):
    pytest.importorskip("ray")
    monkeypatch.setenv("RAY_AUTH_TOKEN", OURS)
    monkeypatch.setenv("RAY_USE_TLS", "1")
    with pytest.raises(pff.InputError, match="RAY_USE_TLS is set, so RAY_TLS_CA_CERT"):
        gate.check_cluster("127.0.0.1:6379")


def test_what_speaks_to_ray_loads_no_torch():
    """The broker is a process of its own: it shall start in a moment."""
    code = "import sys, pfedfair.engines.ray.crew; assert not {'torch', 'ray'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
