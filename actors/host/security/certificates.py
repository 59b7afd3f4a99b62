"""A certificate authority for one cluster, and certificates that it issues.

This file alone decides what a certificate of rayft's says: a node's names its hosts, so that it is one on both sides of a
connection; a client's names a user. No certificate outlives the authority's. Keys are on the curve P-256. Needs
`cryptography`.
"""

import datetime
import ipaddress
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from actors.host.work import durable

AUTHORITY_DAYS = 3650
DAYS = 825
BEFORE = datetime.timedelta(minutes=5)
"""How long before its issue a certificate is good, for machines whose clocks are late."""


class Issued(NamedTuple):
    """A key with its certificate, as PEM."""

    key: bytes
    certificate: bytes

    @property
    def pem(self) -> bytes:
        """Key and certificate one behind the other, as a keystore of type PEM has them."""
        return self.key + self.certificate


def authority(name: str, now: datetime.datetime) -> Issued:
    """A new authority that signs itself."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    certificate = (
        _builder(subject, subject, key.public_key(), now, AUTHORITY_DAYS)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_usage(signs=True), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .sign(key, hashes.SHA256())
    )
    return _issued(key, certificate)


def renewed_authority(old: Issued, now: datetime.datetime) -> Issued:
    """The authority with its key and its name, for another ten years: what it has issued stays good."""
    certificate = x509.load_pem_x509_certificate(old.certificate)
    key = _private(old.key)
    builder = _builder(certificate.subject, certificate.subject, key.public_key(), now, AUTHORITY_DAYS)
    for extension in certificate.extensions:
        builder = builder.add_extension(extension.value, extension.critical)
    return _issued(key, builder.sign(key, hashes.SHA256()))


def issue(
    by: Issued, name: str, now: datetime.datetime, hosts: Sequence[str] = (), unit: str = "", days: int = DAYS
) -> Issued:
    """A certificate for `CN=name`, with `OU=unit` if there is one. `hosts`: names and addresses at which it serves; without
    any it is a client's."""
    signer = x509.load_pem_x509_certificate(by.certificate)
    signing_key = _private(by.key)
    key = ec.generate_private_key(ec.SECP256R1())
    parts = [x509.NameAttribute(NameOID.ORGANIZATIONAL_UNIT_NAME, unit)] if unit else []
    subject = x509.Name([*parts, x509.NameAttribute(NameOID.COMMON_NAME, name)])
    uses = [ExtendedKeyUsageOID.CLIENT_AUTH, *([ExtendedKeyUsageOID.SERVER_AUTH] if hosts else [])]
    builder = (
        _builder(subject, signer.subject, key.public_key(), now, days, signer.not_valid_after_utc)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_usage(signs=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage(uses), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(signing_key.public_key()), critical=False)
    )
    if hosts:
        builder = builder.add_extension(x509.SubjectAlternativeName([_place(host) for host in hosts]), critical=False)
    return _issued(key, builder.sign(signing_key, hashes.SHA256()))


class CertificateContent(NamedTuple):
    """The content of a certificate."""

    name: str
    unit: str
    hosts: tuple[str, ...]
    until: datetime.datetime
    signs: bool
    """Whether the certificate is an authority's."""


def said(pem: bytes) -> CertificateContent:
    """The content of the first certificate in some PEM. Raises ValueError if there is none, or if it has no name."""
    certificate = x509.load_pem_x509_certificate(pem)

    def of(kind: x509.ObjectIdentifier) -> str:
        found = certificate.subject.get_attributes_for_oid(kind)
        return str(found[0].value) if found else ""

    hosts: tuple[str, ...] = ()
    signs = False
    for extension in certificate.extensions:
        if isinstance(extension.value, x509.SubjectAlternativeName):
            hosts = tuple(str(place.value) for place in extension.value)
        if isinstance(extension.value, x509.BasicConstraints):
            signs = extension.value.ca
    name = of(NameOID.COMMON_NAME)
    if not name:
        raise ValueError("its certificate has no common name")
    return CertificateContent(name, of(NameOID.ORGANIZATIONAL_UNIT_NAME), hosts, certificate.not_valid_after_utc, signs)


def is_of(by: Issued, pem: bytes) -> bool:
    """Whether an authority has issued the first certificate in some PEM. Raises ValueError if there is none."""
    try:
        x509.load_pem_x509_certificate(pem).verify_directly_issued_by(x509.load_pem_x509_certificate(by.certificate))
    except (InvalidSignature, TypeError, ValueError):
        return False
    return True


def belong(issued: Issued) -> bool:
    """Whether a key is that of its certificate. Raises ValueError if one of them cannot be read."""
    return _private(issued.key).public_key() == x509.load_pem_x509_certificate(issued.certificate).public_key()


def write(path: Path, data: bytes) -> None:
    """Write a file that its owner alone can read. A file that was there before is replaced whole."""
    durable.replace_files(str(path.parent), {path.name: data})


def _private(pem: bytes) -> ec.EllipticCurvePrivateKey:
    key = load_pem_private_key(pem, None)
    if not isinstance(key, ec.EllipticCurvePrivateKey):
        raise ValueError("its key is not on a curve, so it was not made by rayft certificate")
    return key


def _builder(
    subject: x509.Name,
    issuer: x509.Name,
    key: ec.EllipticCurvePublicKey,
    now: datetime.datetime,
    days: int,
    at_most: datetime.datetime | None = None,
) -> x509.CertificateBuilder:
    until = now + datetime.timedelta(days=days)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - BEFORE)
        .not_valid_after(until if at_most is None else min(until, at_most))
    )


def _usage(*, signs: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=True,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=signs,
        crl_sign=signs,
        encipher_only=False,
        decipher_only=False,
    )


def _place(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _issued(key: ec.EllipticCurvePrivateKey, certificate: x509.Certificate) -> Issued:
    return Issued(
        key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()), certificate.public_bytes(Encoding.PEM)
    )
