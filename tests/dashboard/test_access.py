"""Who may read, and what protects those who do."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from acetune.core.errors import AcetuneError, GoalError
from acetune.report.dashboard import DashboardServer
from dashboard.serving import asking, serving

TOKEN = "open-sesame_42"
PATHS = ["/", "/static/page.css", "/static/page.js", "/static/plotly.js", "/api/content"]
PATHS += ["/api/trials/1"]
NOWHERE = ["/nothing", "/static/nothing.js", "/api/trials/999999", "/api/trials/one"]


def directives(policy: str) -> dict[str, str]:
    parts = (part.strip().partition(" ") for part in policy.split(";"))
    return {name: value for name, _, value in parts}


def as_it_stands(client: httpx.Client, path: str) -> bytes:
    """The answer to a path that a client would tidy before it sends it."""
    assert client.base_url.port is not None
    with socket.create_connection(("127.0.0.1", client.base_url.port), timeout=20) as raw:
        raw.sendall(f"GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode())
        received = b""
        while piece := raw.recv(65536):
            received += piece
    return received


@pytest.mark.parametrize("path", [*PATHS, *NOWHERE])
def test_every_answer_carries_the_headers_that_protect_its_reader(
    client: httpx.Client, path: str
) -> None:
    answer = client.get(path)
    assert answer.status_code == (404 if path in NOWHERE else 200)
    policy = directives(answer.headers["content-security-policy"])
    assert policy["default-src"] == "'none'"
    assert policy["script-src"] == "'self'"
    assert policy["connect-src"] == "'self'"
    assert policy["img-src"] == "'self' data:"
    for name in ("frame-ancestors", "base-uri", "form-action"):
        assert policy[name] == "'none'"
    assert "unsafe" not in answer.headers["content-security-policy"]
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.headers["referrer-policy"] == "no-referrer"
    assert answer.headers["cross-origin-opener-policy"] == "same-origin"
    assert answer.headers["cross-origin-resource-policy"] == "same-origin"
    assert answer.headers["cache-control"] in ("no-store", "private, no-cache")
    assert "server" not in answer.headers
    assert "access-control-allow-origin" not in answer.headers


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "BREW"])
@pytest.mark.parametrize("path", ["/", "/api/content", "/nothing"])
def test_it_only_lets_read(client: httpx.Client, method: str, path: str) -> None:
    answer = client.request(method, path)
    assert answer.status_code == 405
    assert answer.headers["allow"] == "GET, HEAD"
    assert "content-security-policy" in answer.headers


@pytest.mark.parametrize("path", [*PATHS, "/api/events"])
def test_head_gives_the_headers_alone(client: httpx.Client, path: str) -> None:
    answer = client.head(path)
    assert answer.status_code == 200
    assert answer.content == b""


@pytest.mark.parametrize(
    "path",
    [
        "/static/../page.js",
        "/static/..%2f..%2f..%2fpyproject.toml",
        "/static/%2e%2e/%2e%2e/etc/passwd",
        "/static//etc/passwd",
        "/..%5c..%5cetc%5cpasswd",
        "/static/page.js%00.css",
        "/api/trials/../content",
        "/api/trials/-1",
        "/api/trials/1%2f..",
        "/api/trials/" + "9" * 5000,
        "/api/trials/%D9%A1",
    ],
)
def test_no_path_leads_anywhere_else(client: httpx.Client, path: str) -> None:
    received = as_it_stands(client, path)
    assert received.startswith((b"HTTP/1.1 404", b"HTTP/1.1 400"))
    assert b"root:" not in received and b"[project]" not in received


# -- other names for this machine -----------------------------------------------------------------


@pytest.mark.parametrize(
    "host", ["localhost", "LOCALHOST:9", "127.0.0.1:1234", "127.0.0.2", "[::1]", "[::1]:80"]
)
def test_names_of_this_machine_are_let_in(client: httpx.Client, host: str) -> None:
    assert client.get("/api/content", headers={"Host": host}).status_code == 200


@pytest.mark.parametrize(
    "host",
    [
        "evil.example",
        "localhost.evil.example",
        "127.0.0.1.nip.io:8765",
        "[::2]",
        "[::1].evil.example",
        "localhost:80@evil.example",
        "",
        "10.0.0.1",
    ],
)
def test_a_name_that_was_made_to_lead_here_is_not(client: httpx.Client, host: str) -> None:
    answer = client.get("/api/content", headers={"Host": host})
    assert answer.status_code == 421
    assert "params" not in answer.text


# -- the token ------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def guarded(finished: Path) -> Iterator[httpx.Client]:
    with asking(finished, host="0.0.0.0", token=TOKEN) as client:
        yield client


@pytest.mark.parametrize("path", [*PATHS, *NOWHERE, "/api/events"])
def test_without_the_token_nothing_is_told(guarded: httpx.Client, path: str) -> None:
    guarded.cookies.clear()
    for headers in (
        {},
        {"Authorization": "Bearer wrong"},
        {"Authorization": f"Basic {TOKEN}"},
        {"Authorization": "Bearer"},
        {"Cookie": "acetune-1=" + TOKEN},
        {"Cookie": "=;;,"},
    ):
        for address in (path, path + "?token=", path + "?token=wrong", path + "?Token=" + TOKEN):
            answer = guarded.get(address, headers=headers)
            assert answer.status_code == 401
            assert answer.headers["www-authenticate"] == "Bearer"
            assert "set-cookie" not in answer.headers


def test_the_token_in_the_address_becomes_a_cookie(guarded: httpx.Client) -> None:
    guarded.cookies.clear()
    answer = guarded.get(f"/?a=1&token={TOKEN}&b=2")
    assert answer.status_code == 303
    assert answer.headers["location"] == "/?a=1&b=2"
    cookie = answer.headers["set-cookie"].lower()
    assert "httponly" in cookie
    assert "samesite=strict" in cookie
    assert guarded.get("/").status_code == 200  # by the cookie alone
    assert guarded.get("/api/content").status_code == 200


@pytest.mark.parametrize("other", ['j={"a":1,"b":[2]}', "two words=1", "x=é", "=;;,", "lone"])
def test_cookies_of_other_servers_are_no_hindrance(guarded: httpx.Client, other: str) -> None:
    """A browser sends all that were set by this machine, whatever the port."""
    guarded.cookies.clear()
    own = guarded.get(f"/?token={TOKEN}").headers["set-cookie"].partition(";")[0]
    guarded.cookies.clear()
    headers = {b"Cookie": f"{other}; {own}".encode()}
    assert guarded.get("/api/content", headers=headers).status_code == 200


def test_the_redirect_never_leaves_the_server(guarded: httpx.Client) -> None:
    received = as_it_stands(guarded, f"//evil.example/?token={TOKEN}")
    assert received.startswith(b"HTTP/1.1 303")
    assert b"location: /evil.example/\r\n" in received


def test_programs_send_the_token_in_a_header(guarded: httpx.Client) -> None:
    guarded.cookies.clear()
    answer = guarded.get("/api/content", headers={"Authorization": f"bearer {TOKEN}"})
    assert answer.status_code == 200
    # and may call the machine as they like: a foreign page does not know the token
    host = {"Authorization": f"Bearer {TOKEN}", "Host": "box.lan:8765"}
    assert guarded.get("/api/content", headers=host).status_code == 200


def test_a_token_on_this_machine_is_asked_for_too(finished: Path) -> None:
    with asking(finished, token=TOKEN) as client:
        assert client.get("/").status_code == 401
        assert client.get("/", headers={"Authorization": f"Bearer {TOKEN}"}).status_code == 200
        foreign = {"Authorization": f"Bearer {TOKEN}", "Host": "evil.example"}
        assert client.get("/", headers=foreign).status_code == 421


def test_an_address_that_others_reach_gets_a_token_of_its_own(finished: Path) -> None:
    tokens = set()
    for _ in range(2):
        with serving(finished, host="0.0.0.0") as server:
            assert server.address.token is not None
            assert len(server.address.token) >= 32
            assert server.address.url.endswith(f"/?token={server.address.token}")
            assert httpx.get(f"http://127.0.0.1:{server.address.port}/").status_code == 401
            tokens.add(server.address.token)
    assert len(tokens) == 2


@pytest.mark.parametrize("token", ["", " ", "a b", "a;b", "ä", "a\nb"])
@pytest.mark.parametrize("host", ["127.0.0.1", "0.0.0.0"])
def test_a_token_that_is_none_is_refused(finished: Path, token: str, host: str) -> None:
    with pytest.raises(GoalError, match="token"):
        DashboardServer(finished, host=host, port=0, token=token)


def test_a_port_that_is_taken_is_named(finished: Path) -> None:
    with (
        serving(finished) as server,
        pytest.raises(AcetuneError, match=f"port {server.address.port}: .*--port"),
    ):
        DashboardServer(finished, port=server.address.port)
