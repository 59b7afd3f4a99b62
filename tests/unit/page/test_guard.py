"""Who may ask the page: names, origins, secrets, sizes."""

import asyncio
from collections.abc import Iterable
from typing import Any

import pytest

from actors.page import guard
from actors.page.guard import Access, Guard

HOST = "127.0.0.1:8421"
ACCESS = Access(frozenset({f"http://{HOST}", "http://localhost:8421"}), "the-secret", "rayft-page-8421", False)
PASSWORD = ACCESS._replace(is_password=True)
BEARER = ("authorization", "Bearer the-secret")


class Answer:
    """What came back: the status, the headers and whether the application was asked."""

    def __init__(self) -> None:
        self.status = 0
        self.headers: dict[str, str] = {}
        self.asked = False


def ask(
    path: str,
    *headers: tuple[str, str],
    method: str = "GET",
    query: str = "",
    body: Iterable[bytes] = (b"",),
    guarded: Guard | None = None,
) -> Answer:
    answer, parts = Answer(), list(body)

    async def app(scope: Any, receive: Any, send: Any) -> None:
        answer.asked = True
        while (await receive()).get("more_body"):
            pass
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b""})

    async def receive() -> Any:
        return {"type": "http.request", "body": parts.pop(0), "more_body": bool(parts)}

    async def send(message: Any) -> None:
        if message["type"] == "http.response.start":
            answer.status = message["status"]
            answer.headers = {name.decode(): value.decode() for name, value in message["headers"]}

    named = [("host", HOST), *headers] if all(name != "host" for name, _ in headers) else list(headers)
    scope = {
        "type": "http", "method": method, "path": path, "raw_path": path.encode(), "query_string": query.encode(),
        "headers": [(name.encode(), value.encode("latin-1")) for name, value in named],
    }  # fmt: skip
    if guarded is None:
        guarded = Guard(app, ACCESS)
    else:
        guarded._app = app
    asyncio.run(guarded(scope, receive, send))
    return answer


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guard, "WRONG_S", 0)


def test_the_api_answers_those_who_have_the_secret() -> None:
    assert ask("/api/v1/now", BEARER).asked
    assert ask("/api/v1/now", BEARER, ("origin", f"http://{HOST}"), ("sec-fetch-site", "same-origin")).asked
    assert ask("/style.css").asked, "what the page is made of is no secret"


@pytest.mark.parametrize(
    "headers",
    [
        (),
        (("authorization", "Bearer the-secret2"),),
        (("authorization", "Bearer "),),
        (("authorization", "Basic the-secret"),),
        (("cookie", "rayft-page-8421=the-secret"),),
        (("cookie", "rayft-page-8421="),),
    ],
)
def test_without_the_secret_the_api_says_nothing(headers: tuple[tuple[str, str], ...]) -> None:
    answer = ask("/api/v1/now", *headers)
    assert (answer.status, answer.asked) == (401, False)


@pytest.mark.parametrize("host", ["evil.example:8421", "127.0.0.1", "127.0.0.1:80", "", "127.0.0.1:8421.evil.example"])
def test_a_name_that_is_not_the_pages_is_refused_everywhere(host: str) -> None:
    for path in ("/", "/api/v1/now"):
        answer = ask(path, ("host", host), BEARER)
        assert (answer.status, answer.asked) == (421, False)


def test_two_hosts_are_none() -> None:
    assert ask("/", ("host", HOST), ("host", "evil.example")).status == 421


@pytest.mark.parametrize("origin", ["http://evil.example", "null", "https://127.0.0.1:8421", "http://127.0.0.1:80"])
def test_another_origin_is_refused_even_with_the_secret(origin: str) -> None:
    answer = ask("/api/v1/now", BEARER, ("origin", origin))
    assert (answer.status, answer.asked) == (403, False)


def test_a_request_that_another_site_made_the_browser_send_is_refused() -> None:
    for site in ("cross-site", "same-site"):
        assert ask("/api/v1/now", BEARER, ("sec-fetch-site", site)).status == 403
    assert ask("/", ("sec-fetch-site", "cross-site")).asked, "a link to the page may stand anywhere"


def test_the_printed_address_gives_a_cookie_that_opens_the_api() -> None:
    guarded = Guard(lambda *_: None, ACCESS)  # type: ignore[arg-type, return-value]
    entered = ask("/", query="token=the-secret", guarded=guarded)
    assert (entered.status, entered.headers["location"]) == (303, "/")
    cookie = entered.headers["set-cookie"]
    assert "HttpOnly" in cookie and "SameSite=strict" in cookie and "the-secret" not in cookie
    assert ask("/api/v1/now", ("cookie", cookie.partition(";")[0]), guarded=guarded).asked
    other = Guard(lambda *_: None, ACCESS)  # type: ignore[arg-type, return-value]
    assert not ask("/api/v1/now", ("cookie", cookie.partition(";")[0]), guarded=other).asked


def test_a_login_gives_the_cookie_for_the_password_alone() -> None:
    assert "set-cookie" in ask("/api/v1/login", method="POST", body=[b"the-", b"secret"]).headers
    assert "set-cookie" not in ask("/api/v1/login", method="POST", body=[b"the"]).headers
    assert ask("/api/v1/login", method="POST", body=[b"x" * 3000, b"y" * 3000]).status == 401


def test_after_many_wrong_passwords_none_is_tried_for_a_while() -> None:
    guarded = Guard(lambda *_: None, PASSWORD)  # type: ignore[arg-type, return-value]
    entered = ask("/api/v1/login", method="POST", body=[b"the-secret"], guarded=guarded)
    cookie = entered.headers["set-cookie"].partition(";")[0]
    for _ in range(guard.TRIES_MAX):
        assert ask("/api/v1/now", ("authorization", "Bearer wrong"), guarded=guarded).status == 401
    assert ask("/api/v1/now", BEARER, guarded=guarded).status == 401
    assert ask("/api/v1/now", ("cookie", cookie), guarded=guarded).asked, "who is in stays in"


def test_wrong_tokens_lock_nobody_out() -> None:
    guarded = Guard(lambda *_: None, ACCESS)  # type: ignore[arg-type, return-value]
    for _ in range(guard.TRIES_MAX + 1):
        assert ask("/", ("sec-fetch-site", "cross-site"), query="token=x", guarded=guarded).status == 401
    assert ask("/api/v1/now", BEARER, guarded=guarded).asked
    assert ask("/", query="token=the-secret", guarded=guarded).status == 303


def test_an_address_is_no_place_for_a_password_so_no_other_site_can_try_one() -> None:
    guarded = Guard(lambda *_: None, PASSWORD)  # type: ignore[arg-type, return-value]
    for _ in range(guard.TRIES_MAX + 1):
        answer = ask("/", query="token=x", guarded=guarded)
        assert answer.asked and "set-cookie" not in answer.headers
    assert "set-cookie" not in ask("/", query="token=the-secret", guarded=guarded).headers
    assert ask("/api/v1/now", BEARER, guarded=guarded).asked


def test_a_password_may_have_letters_of_any_language() -> None:
    word = "größer als gedacht ☂"
    guarded = Guard(lambda *_: None, PASSWORD._replace(secret=word))  # type: ignore[arg-type, return-value]
    as_curl_sends_it = f"Bearer {word}".encode().decode("latin-1")
    assert ask("/api/v1/now", ("authorization", as_curl_sends_it), guarded=guarded).asked
    assert not ask("/api/v1/now", ("authorization", "Bearer gr\xf6\xdfer"), guarded=guarded).asked
    assert "set-cookie" in ask("/api/v1/login", method="POST", body=[word.encode()], guarded=guarded).headers


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE"])
def test_nothing_can_be_written(method: str) -> None:
    assert ask("/api/v1/now", BEARER, method=method).status == 405


CHANGE = "/api/v1/changes/topics/create"
MAY = ACCESS._replace(may_change=True)
JSON = ("content-type", "application/json")
OWN = ("origin", f"http://{HOST}")


def may(*headers: tuple[str, str], path: str = CHANGE, method: str = "POST") -> Answer:
    return ask(path, *headers, method=method, guarded=Guard(lambda *_: None, MAY))  # type: ignore[arg-type, return-value]


def test_a_change_is_asked_for_where_it_is_allowed_and_nowhere_else() -> None:
    assert may(BEARER, JSON).asked and may(BEARER, JSON, OWN).asked
    assert may(BEARER, JSON, path="/api/v1/tried/groups/reset").asked
    for path in (CHANGE, "/api/v1/tried/groups/reset"):
        answer = ask(path, BEARER, JSON, OWN, method="POST")
        assert (answer.status, answer.asked) == (405, False)


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ((JSON, OWN), 401),
        ((("authorization", "Bearer wrong"), JSON, OWN), 401),
        ((BEARER, JSON, ("origin", "http://evil.example")), 403),
        ((BEARER, JSON, ("origin", "null")), 403),
        ((BEARER, JSON, ("sec-fetch-site", "cross-site")), 403),
        ((BEARER, JSON, ("host", "evil.example")), 421),
        ((BEARER, OWN), 415),
        ((BEARER, OWN, ("content-type", "text/plain")), 415),
        ((BEARER, OWN, ("content-type", "application/x-www-form-urlencoded")), 415),
    ],
)
def test_a_change_of_somebody_else_is_refused(headers: tuple[tuple[str, str], ...], status: int) -> None:
    answer = may(*headers)
    assert (answer.status, answer.asked) == (status, False)


def test_a_cookie_alone_changes_nothing() -> None:
    guarded = Guard(lambda *_: None, MAY)  # type: ignore[arg-type, return-value]
    cookie = ask("/", query="token=the-secret", guarded=guarded).headers["set-cookie"].partition(";")[0]
    answer = ask(CHANGE, ("cookie", cookie), JSON, method="POST", guarded=guarded)
    assert (answer.status, answer.asked) == (403, False)
    for kind, path in (("Bearer wrong", CHANGE), ("Basic eA==", CHANGE), ("", "/api/v1/tried/groups/reset")):
        answer = ask(path, ("cookie", cookie), ("authorization", kind), JSON, method="POST", guarded=guarded)
        assert (answer.status, answer.asked) == (401, False), "what stands beside it is not the token"
    assert ask("/api/v1/now", ("cookie", cookie), ("authorization", "Basic eA=="), guarded=guarded).asked
    assert ask(CHANGE, ("cookie", cookie), JSON, OWN, method="POST", guarded=guarded).asked


@pytest.mark.parametrize("method", ["PUT", "DELETE", "PATCH", "OPTIONS"])
def test_a_change_is_posted(method: str) -> None:
    assert may(BEARER, JSON, OWN, method=method).status == 405
    assert may(BEARER, JSON, OWN, method=method, path="/api/v1/now").status == 405


def test_nothing_else_is_posted_where_changes_are_allowed() -> None:
    for path in ("/api/v1/now", "/api/v1/changes", "/", "/api/v1/topics/t"):
        assert may(BEARER, JSON, OWN, path=path).status == 405


def test_a_long_address_is_refused() -> None:
    assert ask("/api/v1/now", BEARER, query="q=" + "x" * guard.TARGET_BYTES_MAX).status == 414
    assert ask("/" + "x" * guard.TARGET_BYTES_MAX).status == 414


def test_a_long_body_ends_the_question() -> None:
    with pytest.raises(guard.TooLong):
        ask("/api/v1/ask", BEARER, method="POST", body=[b"x" * (guard.BODY_BYTES_MAX // 2)] * 3)


def test_every_answer_may_load_nothing_of_others() -> None:
    for answer in (ask("/"), ask("/api/v1/now"), ask("/", ("host", "evil.example"))):
        assert "default-src 'self'" in answer.headers["content-security-policy"]
        assert answer.headers["x-frame-options"] == "DENY" and answer.headers["x-content-type-options"] == "nosniff"
    assert ask("/api/v1/now").headers["cache-control"] == "no-store"


def test_a_token_among_many_parameters_is_found_or_refused() -> None:
    many = "&".join(f"p{at}=1" for at in range(50))
    assert ask("/", query=f"{many}&token=the-secret").status == 303
    assert ask("/", query=f"{many}&token=another").status == 401


def test_a_secret_that_does_not_come_holds_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guard, "LOGIN_S", 0.05)
    sent: list[Any] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        raise AssertionError("asked")

    async def receive() -> Any:
        await asyncio.Event().wait()

    async def send(message: Any) -> None:
        sent.append(message)

    scope = {"type": "http", "method": "POST", "path": guard.LOGIN, "raw_path": b"", "query_string": b"",
             "headers": [(b"host", HOST.encode())]}  # fmt: skip
    asyncio.run(asyncio.wait_for(Guard(app, ACCESS)(scope, receive, send), 30))
    assert sent[0]["status"] == 408
