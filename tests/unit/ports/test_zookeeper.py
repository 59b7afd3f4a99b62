"""Which changes ZooKeeper can be asked for at all: its paths, and how large a request may be."""

import pytest

from actors.ports.zookeeper import (
    CHANGE_BYTES,
    Check,
    Create,
    Delete,
    Rejected,
    Unsendable,
    Write,
    is_path,
    request_bytes,
    unsendable,
)


@pytest.mark.parametrize(
    "path", ["/", "/a", "/a/b", "/a.b/..c", "/\u00e9t\u00e9", "/a b", "/...", "/a/.x", "/\U0001f600"]
)
def test_paths_that_zookeeper_has(path: str) -> None:
    assert is_path(path)


ODD = "\x00\x1f\x7f\ud800\uf8ff\uffff\n"


@pytest.mark.parametrize(
    "path", ["", "a", "/a/", "//a", "/.", "/..", "/a/./b", "/a/..", *(f"/a{one}" for one in ODD)], ids=ascii
)
def test_paths_that_it_refuses(path: str) -> None:
    assert not is_path(path)
    refused = unsendable([Delete("/a"), Write(path, b"")])
    assert isinstance(refused, Unsendable) and refused.place == 1 and str(refused).isascii()


def test_the_number_of_a_sequential_znode_counts_as_part_of_its_path() -> None:
    assert unsendable([Create("/a/", sequential=True)]) is None
    assert unsendable([Create("/a/")]) is not None and unsendable([Create("//", sequential=True)]) is not None


def test_a_request_has_so_many_bytes_and_no_more() -> None:
    change = Write("/\u00e9", b"x" * 100)
    assert request_bytes([change, Check("/ab", 1)]) == 3 + 100 + 3 + 2 * CHANGE_BYTES
    most = request_bytes([change] * 3)
    assert unsendable([change] * 3, most) is None
    refused = unsendable([change] * 3, most - 1)
    assert refused is not None and refused.place == -1 and "jute.maxbuffer" in str(refused)


def test_a_refusal_names_its_change() -> None:
    assert str(Rejected("exists", 2)) == "ZooKeeper refused: exists (change 2)"
    assert str(Rejected("version")) == "ZooKeeper refused: version"
