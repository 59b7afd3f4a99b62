"""An identity provider on loopback: it publishes its keys, signs tokens, and changes its keys."""

import json
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import jwt
from cryptography.hazmat.primitives.asymmetric import rsa
from jwt.algorithms import RSAAlgorithm

ISSUER, AUDIENCE = "https://provider.example", "kafka"


class Provider:
    """`url` has its keys; `asked` counts who has fetched them."""

    def __init__(self) -> None:
        self._keys: dict[str, rsa.RSAPrivateKey] = {}
        self.newest = ""
        self.asked = 0
        self.change_key("key-1")
        provider = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                provider.asked += 1
                body = provider.key_set()
                self.send_response(200)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: Any) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}/keys"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def change_key(self, name: str) -> None:
        """From now on tokens are signed with a new key, and the old one is not published any more."""
        self._keys = {name: rsa.generate_private_key(65537, 2048)}
        self.newest = name

    def key_set(self) -> bytes:
        keys = [
            RSAAlgorithm.to_jwk(key.public_key(), as_dict=True) | {"kid": name, "use": "sig", "alg": "RS256"}
            for name, key in self._keys.items()
        ]
        return json.dumps({"keys": keys}).encode()

    def token(self, user: str, lifetime_s: float = 300, **claims: Any) -> str:
        """A token of `user`. `claims`: other values than the right ones."""
        now = time.time()
        told = {"sub": user, "iss": ISSUER, "aud": AUDIENCE, "iat": now, "exp": now + lifetime_s} | claims
        return jwt.encode(told, self._keys[self.newest], algorithm="RS256", headers={"kid": self.newest})

    def stop(self) -> None:
        self._server.shutdown()
        self._server.server_close()
