"""Certificates: who trusts them, for how long, and how they are renewed."""

import ipaddress
import ssl
import stat

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import serialization as forms

from pfedfair import InputError
from pfedfair.engines.flower import certificates, provision


@pytest.fixture
def server(tmp_path):
    provision.init(tmp_path / "all", "fl.example.org", days=20)
    return tmp_path / "all" / "server"


def names(path):
    found = certificates.read(path).extensions
    return set(found.get_extension_for_class(x509.SubjectAlternativeName).value)


def shake_hands(trusted, tls):
    """Let a client that trusts an authority talk to a server with these certificates."""
    client = ssl.create_default_context(cafile=trusted)
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(tls / "server.pem", tls / "server.key")
    to, fro = ssl.MemoryBIO(), ssl.MemoryBIO()
    one = client.wrap_bio(fro, to, server_hostname="fl.example.org")
    two = server.wrap_bio(to, fro, server_side=True)
    for side in (one, two, one, two):
        try:
            side.do_handshake()
        except ssl.SSLWantReadError:
            continue
    return one.version()


def test_the_certificate_is_for_the_servers_name(server):
    host, local = x509.DNSName("fl.example.org"), x509.DNSName("localhost")
    loopback = x509.IPAddress(ipaddress.ip_address("127.0.0.1"))
    assert names(server / "tls" / "server.pem") == {host, local, loopback}
    assert shake_hands(server / "tls" / "ca.pem", server / "tls").startswith("TLS")


def test_renewed_certificates_and_older_ones_of_the_authority_trust_each_other(server, tmp_path):
    """A site may take in the new ``ca.pem`` years later."""
    tls, old = server / "tls", tmp_path / "old.pem"
    old.write_bytes((tls / "ca.pem").read_bytes())
    key, before = (tls / "server.key").read_bytes(), names(tls / "server.pem")
    certificates.renew(tls, tmp_path / "all" / "offline" / "ca.key", 365)
    assert (tls / "server.key").read_bytes() == key
    assert names(tls / "server.pem") == before
    assert old.read_bytes() != (tls / "ca.pem").read_bytes()
    for trusted in (old, tls / "ca.pem"):
        assert shake_hands(trusted, tls).startswith("TLS")
    other = tmp_path / "other"
    provision.init(other, "fl.example.org")
    with pytest.raises(ssl.SSLCertVerificationError):
        shake_hands(other / "server" / "tls" / "ca.pem", tls)


def test_only_the_authoritys_key_renews(server, tmp_path):
    tls = server / "tls"
    before = {path: path.read_bytes() for path in tls.iterdir()}
    stranger = tmp_path / "stranger.key"
    pkcs8 = forms.PrivateFormat.PKCS8
    stranger.write_bytes(certificates.private_bytes(certificates.new_key(), pkcs8))
    with pytest.raises(InputError, match=r"stranger.key is not the key of .*ca.pem: name offline"):
        certificates.renew(tls, stranger, 365)
    with pytest.raises(InputError, match=r"none.key is not a readable private key"):
        certificates.renew(tls, tmp_path / "none.key", 365)
    assert {path: path.read_bytes() for path in tls.iterdir()} == before


def test_the_authoritys_key_is_off_the_server(server):
    """Neither the file nor its content is in the server's folder."""
    offline = server.parent / "offline"
    key = offline / "ca.key"
    assert stat.S_IMODE(key.stat().st_mode) == 0o600
    assert stat.S_IMODE(offline.stat().st_mode) == 0o700
    body = key.read_bytes().split(b"\n")[1]
    files = [path for path in server.rglob("*") if path.is_file()]
    assert files
    assert not any(body in path.read_bytes() for path in files)
    assert [path.name for path in server.rglob("*.key")] == ["server.key"]


def test_an_end_is_reported_in_time(server, tmp_path):
    tls = server / "tls"
    warning = certificates.check_expiry(tls / "server.pem", "renew it")
    assert warning.startswith("Warning: server.pem is valid until ")
    assert warning.endswith("(days left: 19): renew it.")
    assert "days left: 199)." in certificates.check_expiry(tls / "ca.pem", "renew it")
    key = certificates.new_key()
    expired = tmp_path / "expired.pem"
    expired.write_bytes(certificates.certificate("x", key.public_key(), key, 0, [], []))
    with pytest.raises(InputError, match=r"expired.pem expired on \d{4}-\d\d-\d\d: renew it\.$"):
        certificates.check_expiry(expired, "renew it")
    with pytest.raises(InputError, match="is not a readable certificate"):
        certificates.check_expiry(tls / "server.key", "renew it")
