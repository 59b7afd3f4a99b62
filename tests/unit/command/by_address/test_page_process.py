"""The process of a page beside a cluster; a shell plays the page."""

import sys
import time
from pathlib import Path

import pytest

from actors.command.by_address.page_process import page_process


def played(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str) -> None:
    """Let a shell script be the page."""
    page = tmp_path / "page"
    page.write_text(f"#!/bin/sh\ncd {tmp_path}\n{script}\n")
    page.chmod(0o700)
    monkeypatch.setattr(sys, "executable", str(page))


def test_a_page_that_goes_on_talking_is_not_stopped_by_that(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A server warns of each request that is none, which anybody may send."""
    played(tmp_path, monkeypatch, "echo; echo '    http://a/'; head -c 1000000 /dev/zero; touch told; exec sleep 100")
    with page_process(tmp_path, 0) as found:
        assert found == ("http://a/", "")
        until_s = time.monotonic() + 20
        while not (tmp_path / "told").exists() and time.monotonic() < until_s:
            time.sleep(0.01)
        assert (tmp_path / "told").exists()


def test_a_page_that_does_not_open_says_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    played(tmp_path, monkeypatch, "echo something; echo 'rayft: the port is taken'; exit 1")
    with page_process(tmp_path, 0) as found:
        assert found == ("", "the port is taken")
