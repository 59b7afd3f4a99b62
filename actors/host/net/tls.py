"""TLS contexts of the listeners of one node, from keystores in files.

This file alone decides how keys and certificates are read, and when they are read again: when a file has changed, for new
connections. An authority that is no longer in the truststore is not trusted any more, and what was opened with a certificate
of it is to be closed (`issued`). A file that is missing then, or cannot be used, leaves all that was read before in use, and
the log says so.
"""

import contextlib
import datetime
import os
import ssl
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, NamedTuple

from actors.host.net.tls_link import CountedRecords
from actors.host.security.distinguished_names import subject
from actors.host.work.kernel import unseen_file
from actors.settings.keys import ConfigError
from actors.settings.node_config import NodeConfig
from actors.settings.tls import Store, TlsSettings

if TYPE_CHECKING:
    from cryptography.x509 import Certificate

    from actors.node.runtime.runtime import Log

HANDSHAKE_TIMEOUT_S = 10.0
SOON = datetime.timedelta(days=30)
SHUTDOWN_TIMEOUT_S = 2.0
JKS = b"\xfe\xed\xfe\xed"
VERSIONS = {"TLSv1.2": ssl.TLSVersion.TLSv1_2, "TLSv1.3": ssl.TLSVersion.TLSv1_3}
CLIENT_AUTH = {"none": ssl.CERT_NONE, "requested": ssl.CERT_OPTIONAL, "required": ssl.CERT_REQUIRED}


class Peer(NamedTuple):
    """The peer that has shown a certificate."""

    principal: str
    good_for_ms: int
    """How many ms the certificate is good from now on; 0 or less: it is over."""


class Tls:
    """The TLS of one listener: as a server, and towards the same listener of other nodes."""

    def __init__(self, listener: str, settings: TlsSettings) -> None:
        """Reads the files of the settings. Raises ConfigError for a file that cannot be read, or that is no keystore."""
        self.listener = listener
        self.settings = settings
        self._read = self._changed()
        self.trusted: str | None = None
        """The certificates of authorities, as PEM; None: there are none in the settings."""
        self._kept = self._material()
        """The key and the certificates that were read last and could be used."""
        self.server, self.client = self._contexts(self._kept)

    def renew(self) -> bool:
        """Read the files again if they have changed. Returns whether they had. Raises ConfigError; the old certificate
        and the authorities then stay."""
        now = self._changed()
        if now == self._read:
            return False
        self._read = now  # what cannot be read is looked at again when it has changed again
        # An authority can be added to a context and never taken out, and a session of an old one goes on without a look at
        # certificates. So both begin anew.
        material = self._material()
        self.server, self.client = self._contexts(material)
        self._kept = material
        return True

    def forget_sessions(self) -> None:
        """Let no session be resumed, so that every peer shakes hands from the beginning. A peer whose certificate is
        over is told so by TLS then, and would otherwise resume its session for ever. Such sessions are gone by that, so
        no peer can cause this again and again. The files are left alone: an authority that has gone is found by
        `renew`."""
        self.server, self.client = self._contexts(self._kept)

    def peer(self, peer: ssl.SSLObject | None, *, logs_in: bool = False) -> Peer | None:
        """The peer that a certificate names, and how long the certificate is good; None: the peer has shown none. A
        session that goes on from an earlier handshake comes without a look at certificates, so the time is looked at
        here. Raises ValueError if the certificate cannot be read, or no rule makes a principal of its name. `logs_in`:
        the peer logs in otherwise, and no rule is looked at."""
        data = peer.getpeercert(binary_form=True) if peer is not None else None
        if data is None:
            return None
        from cryptography import x509

        try:
            until, name = x509.load_der_x509_certificate(data).not_valid_after_utc, subject(data)
        except ValueError as error:
            raise ValueError(f"its certificate cannot be read: {error}") from None
        left = until - datetime.datetime.now(datetime.UTC)
        principal = f"User:{name}" if logs_in else self.settings.principal(name)
        return Peer(principal, int(left.total_seconds() * 1000))

    def _contexts(self, material: tuple[bytes, str | None]) -> tuple[ssl.SSLContext, ssl.SSLContext]:
        """(context as a server, context as a client). Raises ConfigError."""
        server = self._context(ssl.PROTOCOL_TLS_SERVER, material)
        server.verify_mode = CLIENT_AUTH[self.settings.client_auth]
        client = self._context(ssl.PROTOCOL_TLS_CLIENT, material)
        client.check_hostname = self.settings.checks_host
        server.sslobject_class = CountedRecords
        self.trusted = material[1]
        return server, client

    def issued(self, shown: Iterable[bytes]) -> set[bytes]:
        """Out of the certificates `shown` (DER), those that an authority of the truststore, as it was read last, has
        issued itself. A certificate with an authority in between is not among them: its peer connects anew, with all
        its certificates. Another thread may ask."""
        from cryptography import x509

        trusted, found = [], set()
        with contextlib.suppress(ValueError):  # none; or one that OpenSSL alone can read, and then all connect anew
            trusted = x509.load_pem_x509_certificates((self.trusted or "").encode())
        for data in shown:
            with contextlib.suppress(ValueError):
                certificate = x509.load_der_x509_certificate(data)
                if any(_issues(authority, certificate) for authority in trusted):
                    found.add(data)
        return found

    def _context(self, protocol: int, material: tuple[bytes, str | None]) -> ssl.SSLContext:
        context = ssl.SSLContext(protocol)
        versions = sorted(VERSIONS[name] for name in self.settings.protocols)
        context.minimum_version, context.maximum_version = versions[0], versions[-1]
        context.options |= ssl.OP_NO_COMPRESSION | ssl.OP_NO_RENEGOTIATION
        if self.settings.ciphers:
            try:
                context.set_ciphers(":".join(self.settings.ciphers))
            except ssl.SSLError:
                raise ConfigError(
                    f"ssl.cipher.suites of listener {self.listener} names no cipher suite of TLS 1.2 that OpenSSL knows: "
                    f"write OpenSSL's names, or leave it out."
                ) from None
        self._load(context, material)
        return context

    def _material(self) -> tuple[bytes, str | None]:
        """(key and certificates as PEM, certificates that are trusted as PEM or None)."""
        keys = pem(f"listener {self.listener}", "ssl.keystore", self.settings.keys)
        trusted = self.settings.trusted
        if not trusted.location and not trusted.text:
            return keys, None
        # Notes between certificates may have any letters, and OpenSSL is given ASCII.
        return keys, pem(f"listener {self.listener}", "ssl.truststore", trusted).decode("ascii", "replace").replace(
            "\ufffd", "?"
        )

    def _load(self, context: ssl.SSLContext, material: tuple[bytes, str | None]) -> None:
        keys, trusted = material
        try:
            if trusted is not None:
                context.load_verify_locations(cadata=trusted)
            load_keys(context, keys, self.settings.key_password or self.settings.keys.password)
        except (ssl.SSLError, ValueError) as error:
            raise ConfigError(
                f"the keys or certificates of listener {self.listener} cannot be used ({error}): check that the "
                f"keystore has a private key with its certificate, and the passwords."
            ) from None

    def _changed(self) -> tuple[tuple[int, int] | None, ...]:
        found: list[tuple[int, int] | None] = []
        for store in (self.settings.keys, self.settings.trusted):
            try:
                stat = os.stat(store.location) if store.location else None
            except OSError:
                stat = None
            found.append((stat.st_mtime_ns, stat.st_size) if stat is not None else None)
        return tuple(found)


class Contexts:
    """The TLS of all listeners that speak it, by listener name; also of other nodes' listeners that this node dials."""

    def __init__(self, config: NodeConfig, log: "Log") -> None:
        self._log = log
        self._by_name: Mapping[str, Tls] = {
            name: Tls(name, security.tls) for name, security in config.security.items() if security.tls is not None
        }
        self._told: datetime.date | None = None
        """The day on which the log last said which certificates end soon."""

    def get(self, listener: str) -> Tls | None:
        """The TLS of a listener; None: the listener does not speak TLS."""
        return self._by_name.get(listener)

    def key_files(self) -> list[str]:
        """The files with private keys."""
        return [tls.settings.keys.location for tls in self._by_name.values() if tls.settings.keys.location]

    def tell_ends(self, now: datetime.datetime) -> None:
        """Warn, once a day, of certificates that end soon: after that no peer can connect."""
        if self._told == now.date():
            return
        self._told = now.date()
        for where, until in ends_soon({name: tls.settings for name, tls in self._by_name.items()}, now).items():
            self._log.warning(
                f"the certificate {where} is good until {until:%Y-%m-%d %H:%M} (UTC): renew it, with rayft certificate "
                f"renew if that made it."
            )

    def renew(self) -> list[Tls]:
        """Read again the files that have changed. Returns the listeners that trust other authorities than before. It is
        called about once a second."""
        self.tell_ends(datetime.datetime.now(datetime.UTC))
        found = []
        for tls in self._by_name.values():
            before = tls.trusted
            try:
                if tls.renew():
                    if tls.trusted != before:
                        found.append(tls)
                    self._log.info(f"read the certificates of listener {tls.listener} again")
            except ConfigError as error:
                self._log.error(f"{error} The certificates that were read before stay in use.")
        return found


def _issues(authority: "Certificate", certificate: "Certificate") -> bool:
    """Whether an authority has signed a certificate."""
    from cryptography.exceptions import InvalidSignature

    try:
        certificate.verify_directly_issued_by(authority)
    except (ValueError, TypeError, InvalidSignature):  # another name, another kind of key, another key
        return False
    return True


def ends_soon(by_listener: Mapping[str, TlsSettings], now: datetime.datetime) -> dict[str, datetime.datetime]:
    """The nodes' own certificates that end within `SOON` or have ended, as their files are now: where each stands -> when it
    ends. One that cannot be read is left out."""
    found: dict[str, datetime.datetime] = {}
    for name, settings in by_listener.items():
        until = _until(name, settings)
        if until is not None and until - now < SOON:
            found[settings.keys.location or f"in the settings of listener {name}"] = until
    return found


def _until(listener: str, settings: TlsSettings) -> datetime.datetime | None:
    try:
        from cryptography import x509
    except ImportError:
        return None
    try:
        return x509.load_pem_x509_certificate(
            pem(f"listener {listener}", "ssl.keystore", settings.keys)
        ).not_valid_after_utc
    except (ConfigError, ValueError):
        return None


def reason(error: OSError) -> str:
    """Why a handshake failed, in one line."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"its certificate is not trusted ({error.verify_message})"
    if isinstance(error, ssl.SSLError):
        return str(error.reason or error)
    return str(error) or "the connection ended during the handshake"


def load_keys(context: ssl.SSLContext, keys: bytes, password: str) -> None:
    """Give a context a private key and its certificates, as PEM. Raises ssl.SSLError, ValueError."""
    with unseen_file(keys) as path:  # OpenSSL takes keys from files only
        context.load_cert_chain(path, password=password)


def pem(owner: str, setting: str, store: Store) -> bytes:
    """The content of a store of `owner`, as PEM. Raises ConfigError."""
    if store.text:
        return store.text.encode()
    try:
        with open(store.location, "rb") as file:
            data = file.read()
    except OSError as error:
        raise ConfigError(
            f"{setting}.location={store.location} of {owner} cannot be read ({error.strerror}): write the "
            f"path of a PEM or PKCS12 file."
        ) from None
    if data.startswith(JKS):
        raise ConfigError(
            f"{store.location} is a Java keystore (JKS): make PKCS12 of it with keytool -importkeystore -srckeystore "
            f"{store.location} -destkeystore {store.location}.p12 -deststoretype PKCS12, and name that file."
        )
    if store.type == "PEM" or b"-----BEGIN" in data:
        return data
    return _from_pkcs12(owner, store, data)


def _from_pkcs12(owner: str, store: Store, data: bytes) -> bytes:
    try:
        from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, pkcs12
    except ImportError:
        raise ConfigError(
            f"{store.location} of {owner} is PKCS12, for which `pip install rayft[tls]` is needed: install "
            f"it, or write a PEM file."
        ) from None
    try:
        found = pkcs12.load_pkcs12(data, store.password.encode() or None)
    except ValueError:
        raise ConfigError(
            f"{store.location} of {owner} is no PKCS12 file, or its password is another: write PEM or PKCS12, "
            f"and the password of the file."
        ) from None
    parts: list[bytes] = []
    if found.key is not None:
        parts.append(found.key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    certificates: Iterable[pkcs12.PKCS12Certificate] = (*([found.cert] if found.cert else ()), *found.additional_certs)
    parts += [one.certificate.public_bytes(Encoding.PEM) for one in certificates]
    return b"".join(parts)
