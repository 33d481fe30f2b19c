"""The two files that travel: consortium.json and a site's request; both may come from anybody."""

import base64
import json
import shutil
import subprocess

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives import serialization as forms
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.x509.oid import NameOID

from pfedfair import InputError
from pfedfair.engines.flower import certificates, consortium
from pfedfair.engines.flower.certificates import new_key
from pfedfair.engines.flower.consortium import Consortium

SIGNER = consortium.public_text(ed25519.Ed25519PrivateKey.generate().public_key())
AUTHORITY = new_key()


def root(days=1):
    return certificates.issue(AUTHORITY, new_key().public_key(), ["x"], days)[0].decode()


def own():
    return consortium.public_text(new_key().public_key())


@pytest.fixture
def known():
    return Consortium("fl.example.org:8443", root(), SIGNER, False, {"b": own(), "a": own()})


def test_what_is_written_is_read(known, tmp_path):
    known.write(tmp_path / "consortium.json")
    assert Consortium.read(tmp_path / "consortium.json") == known


@pytest.mark.parametrize(
    "change",
    [
        {"address": "x; touch here:8443"},  # would be in a start script
        {"address": "$(id):1"},
        {"address": 8443},
        {"authority": "no certificate"},
        {"authority": None},
        {"app_signer": f"{SIGNER} '\nfpk_other: '{SIGNER}"},  # would be in trusted.yaml
        {"app_signer": own()},
        {"secure_sum": "yes"},
        {"sites": {"../a": own()}},
        {"sites": {"a": SIGNER}},
        {"sites": {"a": f"{own()} comment"}},
        {"sites": ["a"]},
        {"sites": {"a": own(), "A": own()}},
        {"sites": dict.fromkeys("ab", own())},
        {"more": 1},
    ],
)
def test_a_file_that_cannot_be_is_refused(known, tmp_path, change):
    path = tmp_path / "consortium.json"
    known.write(path)
    path.write_text(json.dumps(json.loads(path.read_text()) | change))
    with pytest.raises(InputError, match=r"is not a consortium.json .* ask the server's operator"):
        Consortium.read(path)


def test_no_file_no_object_no_json(tmp_path):
    path = tmp_path / "consortium.json"
    with pytest.raises(InputError, match="There is no file"):
        Consortium.read(path)
    for text, message in (("[]", "is not a consortium.json"), ("{", "cannot be read")):
        path.write_text(text)
        with pytest.raises(InputError, match=message):
            Consortium.read(path)


def test_the_fingerprint_is_of_all_keys_and_of_nothing_else(known):
    same = Consortium("other:1", root(days=9), SIGNER, True, dict(sorted(known.sites.items())))
    assert same.fingerprint() == known.fingerprint()
    assert len(known.fingerprint().split()) == 10
    for change in (
        {"sites": {"a": known.sites["a"]}},
        {"sites": {"a": known.sites["b"], "b": known.sites["a"]}},
        {"app_signer": own()},
        {"authority": certificates.issue(new_key(), new_key().public_key(), ["x"], 1)[0].decode()},
    ):
        other = Consortium(**{**vars(known), **change})
        assert other.fingerprint() != known.fingerprint(), change


@pytest.mark.skipif(shutil.which("ssh-keygen") is None, reason="needs ssh-keygen")
def test_a_keys_fingerprint_is_that_of_openssh(tmp_path):
    text = own()
    (tmp_path / "x.pub").write_text(text)
    command = ["ssh-keygen", "-l", "-f", tmp_path / "x.pub"]
    said = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert said.split()[1] == consortium.key_fingerprint(text)


# --- requests ----------------------------------------------------------------------------------


def der(path):
    return base64.b64decode("".join(path.read_text().splitlines()[1:-1]))


def pem(path, content):
    body = base64.b64encode(content).decode()
    kind = "CERTIFICATE REQUEST"
    path.write_text(f"-----BEGIN {kind}-----\n{body}\n-----END {kind}-----\n")
    return path


def test_a_request_has_the_name_and_the_key_of_a_site(tmp_path):
    key = new_key()
    consortium.write_request(tmp_path / "a.csr", "st-mary", key)
    public = consortium.public_text(key.public_key())
    assert consortium.read_request(tmp_path / "a.csr") == ("st-mary", public)


def test_a_forged_request_is_refused(tmp_path):
    """Another name on a site's request; a site's public key in somebody else's."""
    good, bad = tmp_path / "good.csr", tmp_path / "bad.csr"
    victim, thief = new_key(), new_key()
    consortium.write_request(good, "st-mary", victim)
    consortium.write_request(bad, "st-mary", thief)
    form = forms.Encoding.DER, forms.PublicFormat.SubjectPublicKeyInfo
    ours, theirs = (key.public_key().public_bytes(*form) for key in (victim, thief))
    forged = der(good).replace(b"st-mary", b"st-john"), der(bad).replace(theirs, ours)
    assert forged[0] != der(good)
    assert forged[1] != der(bad)
    for content in forged:
        with pytest.raises(InputError, match="is forged or damaged"):
            consortium.read_request(pem(bad, content))


def signed(path, key, *names):
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name) for name in names])
    request = x509.CertificateSigningRequestBuilder(subject).sign(key, hashes.SHA256())
    path.write_bytes(request.public_bytes(forms.Encoding.PEM))
    return path


def test_other_requests_are_refused(tmp_path):
    path = tmp_path / "x.csr"
    small = ec.generate_private_key(ec.SECP256R1())
    for key, names in (
        (rsa.generate_private_key(65537, 2048), ("a",)),
        (small, ("a",)),
        (new_key(), ()),
        (new_key(), ("a", "b")),
    ):
        with pytest.raises(InputError, match="is no readable request"):
            consortium.read_request(signed(path, key, *names))
    path.write_text("no request")
    for one in (path, tmp_path / "none.csr"):
        with pytest.raises(InputError, match="is no readable request"):
            consortium.read_request(one)
    for name in ("../../x", "a b", "a;b", "a\nb", ".x", "-x"):
        with pytest.raises(InputError, match="A site's name has up to 64 letters"):
            consortium.read_request(signed(path, new_key(), name))
