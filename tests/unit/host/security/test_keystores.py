"""Keystores that cannot be read: one sentence each."""

import datetime
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    NoEncryption,
    load_pem_private_key,
    pkcs12,
)
from cryptography.x509 import load_pem_x509_certificate
from hypothesis import given, settings
from hypothesis import strategies as st

from actors.host.net.tls import JKS, Tls
from actors.host.security.certificates import authority, issue
from actors.settings.keys import ConfigError
from actors.settings.tls import Store, TlsSettings
from tests.descriptors import opened, settled

NOW = datetime.datetime.now(datetime.UTC)
BY = authority("test", NOW)
OTHER = issue(BY, "other", NOW)
ISSUED = issue(BY, "node", NOW)
SECRET = "hunter2-hunter2"


def bundle(password: str) -> bytes:
    """PKCS12."""
    key, certificate = load_pem_private_key(ISSUED.key, None), load_pem_x509_certificate(ISSUED.certificate)
    how = BestAvailableEncryption(password.encode()) if password else NoEncryption()
    return pkcs12.serialize_key_and_certificates(b"n", key, certificate, None, how)  # type: ignore[arg-type]


def read(tmp: Path, data: bytes, kind: str = "PEM", password: str = SECRET) -> Tls:
    path = tmp / "store"
    path.write_bytes(data)
    keys = Store(kind, str(path), password, "")
    none = Store("PEM", "", "", "")
    return Tls("L", TlsSettings(keys, "", none, "none", ("TLSv1.2", "TLSv1.3"), (), False, ()))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("stores")


def refused(folder: Path, data: bytes, kind: str) -> str:
    """The sentence; it never holds a password or a line of a key. Descriptors are given back."""
    before = settled()
    with pytest.raises(ConfigError) as found:
        read(folder, data, kind)
    assert opened() == before
    text = str(found.value)
    assert SECRET not in text and "PRIVATE KEY" not in text and "\n" not in text, text
    assert "listener L" in text or "JKS" in text
    return text


def test_good_stores_are_read(folder: Path) -> None:
    read(folder, ISSUED.pem)
    read(folder, bundle(SECRET), "PKCS12")


def trusting(tmp: Path, trusted: bytes) -> Tls:
    (tmp / "node.pem").write_bytes(ISSUED.pem)
    (tmp / "trusted.pem").write_bytes(trusted)
    stores = [Store("PEM", str(tmp / name), "", "") for name in ("node.pem", "trusted.pem")]
    return Tls("L", TlsSettings(stores[0], "", stores[1], "none", ("TLSv1.2", "TLSv1.3"), (), False, ()))


def test_a_truststore_may_have_notes_in_any_letters(folder: Path) -> None:
    found = trusting(folder, "# für die Größe\n".encode() + BY.certificate + b"# \xff\n")
    assert len(found.server.get_ca_certs()) == 1


@pytest.mark.parametrize(
    "trusted", [b"", bytes(100), b"\xff\xfe", BY.certificate[:300], b"-----BEGIN CERTIFICATE-----\n\xff\n"]
)
def test_a_truststore_that_cannot_be_used_is_one_sentence(folder: Path, trusted: bytes) -> None:
    with pytest.raises(ConfigError) as found:
        trusting(folder, trusted)
    assert "listener L" in str(found.value) and "\n" not in str(found.value)


CORPUS = {
    "empty": b"",
    "zeros": bytes(100),
    "a certificate alone": ISSUED.certificate,
    "a key alone": ISSUED.key,
    "another's key": ISSUED.certificate + OTHER.key,
    "cut": ISSUED.pem[: len(ISSUED.pem) // 2],
    "not Base64": b"-----BEGIN CERTIFICATE-----\n!!!!\n-----END CERTIFICATE-----\n",
    "not ASCII": b"-----BEGIN CERTIFICATE-----\n\xff\xfe\n-----END CERTIFICATE-----\n",
    "JKS": JKS + bytes(200),
    "another password": bundle("another"),
    "cut PKCS12": bundle(SECRET)[:-20],
}


@pytest.mark.parametrize("kind", ["PEM", "PKCS12"])
@pytest.mark.parametrize("case", CORPUS)
def test_a_store_that_cannot_be_used_is_one_sentence(folder: Path, case: str, kind: str) -> None:
    text = refused(folder, CORPUS[case], kind)
    assert case != "JKS" or "keytool -importkeystore" in text


@pytest.mark.long
@settings(max_examples=30, deadline=None)
@given(st.data())
def test_any_damage_to_a_store_is_one_sentence_or_none(folder: Path, data: st.DataObject) -> None:
    kind, whole = data.draw(st.sampled_from([("PEM", ISSUED.pem), ("PKCS12", bundle(SECRET))]))
    damaged = bytearray(whole)
    for place, byte in data.draw(st.lists(st.tuples(st.integers(0, len(whole) - 1), st.integers(0, 255)), max_size=4)):
        damaged[place] = byte
    damaged = damaged[: data.draw(st.integers(0, len(whole)))]
    try:
        read(folder, bytes(damaged), kind)
    except ConfigError:
        refused(folder, bytes(damaged), kind)
