"""TLS of a client, from its settings: keys and authorities are read once, when the client begins."""

import ssl

from actors.client.errors import ClientError, NoKafka, NotLoggedIn
from actors.client.properties import ClientConfig, TlsConfig
from actors.host.net.tls import VERSIONS, load_keys, pem
from actors.settings.keys import ConfigError


def client_context(settings: TlsConfig) -> ssl.SSLContext:
    """The TLS of a client. Without a truststore the authorities of the system are trusted. Raises ConfigError."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    versions = sorted(VERSIONS[name] for name in settings.protocols)
    context.minimum_version, context.maximum_version = versions[0], versions[-1]
    context.options |= ssl.OP_NO_COMPRESSION | ssl.OP_NO_RENEGOTIATION
    context.check_hostname = settings.checks_host
    if settings.ciphers:
        try:
            context.set_ciphers(":".join(settings.ciphers))
        except ssl.SSLError:
            raise ConfigError(
                "ssl.cipher.suites names no cipher suite of TLS 1.2 that OpenSSL knows: write OpenSSL's names, or leave it "
                "out."
            ) from None
    try:
        if settings.trusted.location or settings.trusted.text:
            trusted = pem("the client", "ssl.truststore", settings.trusted)
            context.load_verify_locations(cadata=trusted.decode("ascii", "replace").replace("\ufffd", "?"))
        else:
            context.load_default_certs()
        if settings.keys.location or settings.keys.text:
            keys = pem("the client", "ssl.keystore", settings.keys)
            load_keys(context, keys, settings.key_password or settings.keys.password)
    except (ssl.SSLError, ValueError) as error:
        if isinstance(error, ConfigError):
            raise
        raise ConfigError(
            f"the keys or certificates of the client cannot be used ({error}): check that the keystore has a private key "
            f"with its certificate, and the passwords."
        ) from None
    return context


def failed(server: str, error: Exception) -> str | ClientError:
    """The reason why a connection, or its TLS, failed: in words, or as an error that is final."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return NoKafka(
            f"{server}: its certificate is not trusted ({error.verify_message}): check ssl.truststore.location"
        )
    if isinstance(error, ssl.SSLError):
        if error.reason in ("WRONG_VERSION_NUMBER", "RECORD_LAYER_FAILURE", "PACKET_LENGTH_TOO_LONG"):
            return NoKafka(f"{server} does not speak TLS: set security.protocol to PLAINTEXT or SASL_PLAINTEXT")
        if error.reason and ("CERTIFICATE_REQUIRED" in error.reason or "HANDSHAKE_FAILURE" in error.reason):
            return NoKafka(f"{server} wants a certificate that it trusts ({error.reason}): check ssl.keystore.location")
        if error.reason and ("UNKNOWN_CA" in error.reason or "BAD_CERTIFICATE" in error.reason):
            return NoKafka(f"{server} does not trust the client's certificate ({error.reason})")
        return str(error.reason or error)
    if isinstance(error, ConnectionRefusedError):
        return "nothing listens there (connection refused)"
    if isinstance(error, TimeoutError):
        return "it did not accept a connection in time"
    if isinstance(error, OSError):
        return error.strerror or str(error) or "the connection ended"
    return str(error)


def read_token(config: ClientConfig) -> str:
    """The bearer token of a login that begins now. Raises ClientError."""
    assert config.login is not None
    try:
        with open(config.login.token_file, encoding="ascii") as file:
            token = file.read().strip()
    except (OSError, UnicodeDecodeError) as error:
        raise NotLoggedIn(f"the token in {config.login.token_file} cannot be read: {error}") from None
    if not token:
        raise NotLoggedIn(f"{config.login.token_file} has no token")
    return token
