"""Where a page may be served, under which names it answers, and that its answers go out at once."""

import asyncio
import re
import socket
from pathlib import Path

import pytest

from actors.page import serve
from actors.page.serve import Door, Refused, access, address, password


def test_loopback_has_a_token_of_its_own_each_time() -> None:
    first, second = password(Door()), password(Door())
    assert first != second and len(first) >= 32
    assert address(Door(), 8421, first) == f"http://127.0.0.1:8421/?token={first}"


@pytest.mark.parametrize("host", ["0.0.0.0", "192.168.1.5", "::", "example.org"])
def test_other_addresses_want_tls_and_a_password(host: str, tmp_path: Path) -> None:
    file = tmp_path / "password"
    file.write_text("long enough, surely\n")
    for door in (Door(host), Door(host, password_file=file), Door(host, certificate=file, key=file)):
        with pytest.raises(Refused, match="TLS and a password"):
            password(door)
    assert password(Door(host, certificate=file, key=file, password_file=file)) == "long enough, surely"


def test_a_short_password_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "password"
    file.write_text("short")
    with pytest.raises(Refused, match="shorter than 12"):
        password(Door(password_file=file))


def test_a_certificate_without_its_key_is_refused(tmp_path: Path) -> None:
    with pytest.raises(Refused, match="go together"):
        password(Door(certificate=tmp_path))


def test_the_names_of_a_page(tmp_path: Path) -> None:
    assert access(Door(), 8421, "s").hosts == {"127.0.0.1:8421", "localhost:8421", "[::1]:8421"}
    wide = Door("0.0.0.0", 443, ("ui.example.org",), tmp_path, tmp_path, tmp_path)
    assert access(wide, 443, "s").origins == {"https://ui.example.org"}
    assert access(wide, 443, "s").is_secure
    assert address(wide, 8443, "the-password") == "https://ui.example.org:8443/"
    own = socket.gethostname().lower()
    for host in ("0.0.0.0", "::"):
        unnamed = Door(host, 8443, (), tmp_path, tmp_path, tmp_path)
        assert access(unnamed, 8443, "s").hosts == {f"{own}:8443"}, "what is printed is what is answered"
        assert address(unnamed, 8443, "the-password").lower() == f"https://{own}:8443/"


def test_the_body_of_an_answer_does_not_wait_until_its_head_is_acknowledged() -> None:
    """A browser acknowledges after up to 40 ms."""

    async def main() -> int:
        accepted = asyncio.get_running_loop().create_future()

        async def meet(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            sock = writer.get_extra_info("socket")
            accepted.set_result(sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY))
            writer.close()

        with serve._listening(Door(port=0)) as sock:
            sock.setblocking(False)
            async with await asyncio.start_server(meet, sock=sock):
                _, writer = await asyncio.open_connection(*sock.getsockname())
                found: int = await accepted
                writer.close()
                return found

    assert asyncio.run(main())


def test_a_connection_is_kept_until_an_open_page_asks_again() -> None:
    """Each question of an open page opened a connection, and negotiated TLS, as the page had closed the one before."""
    views = (Path(serve.__file__).parent / "static").glob("*.js")
    waits = {int(one) for view in views for one in re.findall(r"\b(\d{4,6})\)", view.read_text("utf-8"))}
    assert 30_000 in waits and serve.IDLE_S * 1000 > 30_000
