"""A dataset without C++ behind it: nothing that a user can call reaches for it, and nothing is connected before a scan."""

import pickle

import pyarrow.dataset as ds
import pytest

import rayft
from actors.arrow.scanning import Topics
from actors.client.errors import ClientError
from actors.replay.columns.record_columns import SCHEMA


def test_every_method_of_a_dataset_is_replaced() -> None:
    """One that is not would end the process."""
    inherited = {name for name in dir(ds.Dataset) if name not in dir(object)} | {"_get_fragments"}
    missing = {name for name in inherited if name not in vars(Topics)}
    assert missing <= {"__pyx_vtable__", "__reduce_cython__", "__setstate_cython__", "__setstate__"}, "replace them"


def test_it_is_a_dataset_that_is_not_connected() -> None:
    found = rayft.scan("127.0.0.1:1", ["a", "b"])
    assert isinstance(found, ds.Dataset) and found.schema == SCHEMA
    assert repr(found) == "<rayft.scan of a, b>"
    again = pickle.loads(pickle.dumps(found))
    assert isinstance(again, Topics) and again._made_of == found._made_of
    for refused in ("get_fragments", "take", "sort_by", "join", "replace_schema"):
        with pytest.raises(NotImplementedError, match="to_table"):
            getattr(found, refused)([1])
    with pytest.raises(ValueError, match="colour"):
        found.scanner(columns=["colour"])


def test_a_scan_without_a_server_says_so() -> None:
    found = rayft.scan("127.0.0.1:1", "a", config={"default.api.timeout.ms": 300})
    with pytest.raises(ClientError, match="nothing listens there"):
        found.to_table()
