"""A page that others may reach: TLS, a password, and neither of them in what is printed."""

import http.client
import ssl
from pathlib import Path

import pytest

from tests.integration.conftest import ROOT, command
from tests.integration.page.opened import page

LOG = ROOT / "tests" / "golden" / "kafka-4.3.1" / "__cluster_metadata-0"
PASSWORD = "correct horse battery"


def test_a_page_with_tls_and_a_password(tmp_path: Path) -> None:
    for words in (["authority"], ["node", "--id", "1", "--host", "localhost"]):
        made = command("certificate", *words, "--dir", str(tmp_path / "ca"))
        assert made.returncode == 0, made.stderr
    pem, password = str(tmp_path / "ca" / "rayft-node-1.pem"), tmp_path / "password"
    password.write_text(f"{PASSWORD}\n")
    words = ["--listen", "0.0.0.0", "--name", "localhost", "--certificate", pem, "--key", pem]
    with page(str(LOG), *words, "--password-file", str(password)) as opened:
        trusted = ssl.create_default_context(cafile=str(tmp_path / "ca" / "ca.pem"))

        def ask(path: str, method: str = "GET", body: str = "", **headers: str) -> tuple[int, str]:
            conn = http.client.HTTPSConnection("localhost", opened.port, timeout=30, context=trusted)
            conn.request(method, path, body, headers)
            answer = conn.getresponse()
            told = answer.status, answer.getheader("set-cookie") or ""
            answer.read()
            conn.close()
            return told

        assert opened.address == f"https://localhost:{opened.port}/"
        assert ask("/api/v1/now")[0] == 401
        assert ask("/api/v1/login", "POST", "a guess")[0] == 401
        status, cookie = ask("/api/v1/login", "POST", PASSWORD)
        assert status == 200 and "Secure" in cookie and PASSWORD not in cookie
        assert ask("/api/v1/now", Cookie=cookie.partition(";")[0])[0] == 200
        assert ask("/api/v1/now", Cookie=cookie.partition(";")[0], Host="other.example")[0] == 421
        plain = http.client.HTTPConnection("127.0.0.1", opened.port, timeout=30)
        with pytest.raises((OSError, http.client.HTTPException)):
            plain.request("GET", "/")
            plain.getresponse()
        plain.close()
    assert PASSWORD not in "".join(opened.printed)
