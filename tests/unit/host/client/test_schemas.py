"""A registry that a thread waits for: bounded tries, a sentence for what is wrong, and no quarrel with a loop that runs."""

import asyncio
import socket

import pytest

from actors.client.errors import ClientError
from actors.host.client import schemas as module
from actors.host.client.schema_registry import Unknown, Written
from actors.host.client.schemas import TRIES, Schemas
from tests.integration.arrow.registry import registry


def test_a_schema_and_a_version_are_found_also_where_a_loop_runs() -> None:
    with registry() as one:
        assert one.register("s", {"schema": '"int"'}) == 1 and one.register("s", {"schema": '"long"'}) == 2
        schemas = Schemas(one.url)

        async def inside() -> tuple[object, object]:
            return schemas.schema(1), schemas.version("s")

        assert schemas.schema(2) == Written("AVRO", '"long"', {}) and schemas.version("s", "1") == 1
        assert asyncio.run(inside()) == (Written("AVRO", '"int"', {}), 2)
        assert schemas.version("t") is None
        told = schemas.schema(3)
        assert isinstance(told, Unknown) and told == "the schema registry has no schema 3"


def test_a_registry_that_knows_nothing_is_the_wrong_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "UNKNOWN_MAX", 3)
    with registry() as one:
        schemas = Schemas(one.url)
        for id in range(3):
            assert isinstance(schemas.schema(id), Unknown)
        with pytest.raises(ClientError, match="does not know 4 ids: it is not that of these topics"):
            schemas.schema(3)


def test_a_schema_that_refers_to_too_many_others_is_a_fact_about_its_values() -> None:
    """It ended the read, whatever was asked for values that cannot be read."""
    with registry() as one:
        names = [f"s{n}" for n in range(65)]
        for name in names:
            one.register(name, {"schema": f'{{"type": "fixed", "name": "{name}", "size": 1}}'})
        many = [{"name": name, "subject": name, "version": 1} for name in names]
        id = one.register("all", {"schema": '"s0"', "references": many})
        fewer = one.register("fewer", {"schema": '"s0"', "references": many[:64]})
        schemas = Schemas(one.url)
        told = schemas.schema(id)
        assert isinstance(told, Unknown) and told == "its schema refers to too many others"
        assert one.asked.count(f"/schemas/ids/{id}") == 1
        assert isinstance(schemas.schema(fewer), Written)


@pytest.mark.parametrize(("status", "words"), [(500, "does not answer"), (403, "without a login"), (302, "elsewhere")])
def test_a_registry_that_does_not_give_a_schema_is_asked_a_few_times(
    status: int, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "PAUSE_S", 0.0)
    with registry() as one:
        one.register("s", {"schema": '"int"'})
        one.status = status
        schemas = Schemas(one.url, "name:hidden")
        for ask in (lambda: schemas.schema(1), lambda: schemas.version("s")):
            before = len(one.asked)
            with pytest.raises(ClientError, match=words) as told:
                ask()
            assert len(one.asked) - before == TRIES and "hidden" not in str(told.value)
        one.status = 0
        assert schemas.version("s") == 1 and isinstance(schemas.schema(1), Written), "it is asked again at once"


def test_what_is_no_registry_costs_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "PAUSE_S", 0.0)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        schemas = Schemas(f"http://127.0.0.1:{free.getsockname()[1]}")
        with pytest.raises(ClientError, match="does not answer: schema 1 was asked for 3 times"):
            schemas.schema(1)
        with pytest.raises(ClientError, match="does not answer: s was asked for 3 times"):
            schemas.version("s")


def test_a_schema_names_what_it_refers_to_as_it_likes() -> None:
    """Each value that cannot be read may have the sentence beside it."""
    with registry() as one:
        one.register("s", {"schema": '"int"', "references": [{"name": "n", "subject": "x" * 9_000, "version": 1}]})
        told = Schemas(one.url).schema(1)
        assert isinstance(told, Unknown) and told.startswith("the schema registry has no xxx") and len(told) <= 500


def test_what_a_registry_does_not_know_it_may_know_later(monkeypatch: pytest.MonkeyPatch) -> None:
    """An id counts once, however often it is asked for."""
    monkeypatch.setattr(module, "UNKNOWN_MAX", 2)
    with registry() as one:
        schemas = Schemas(one.url)
        for _ in range(5):
            assert isinstance(schemas.schema(1), Unknown) and not schemas.may_be_known(1)
        monkeypatch.setattr(module, "AGAIN_S", 0.0)
        assert schemas.may_be_known(1)
        one.register("s", {"schema": '"int"'})
        assert isinstance(schemas.schema(1), Written)
        monkeypatch.setattr(module, "AGAIN_S", 15.0)
        assert schemas.may_be_known(1), "as another column has found out"
