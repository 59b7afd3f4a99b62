"""Values as typed columns from real brokers, written by Confluent's serializer, which registers the schemas."""

import asyncio
import json
import pickle
import uuid
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pyarrow.dataset as ds
import pytest
from confluent_kafka import Producer
from confluent_kafka.schema_registry import SchemaRegistryClient, header_schema_id_serializer
from confluent_kafka.schema_registry.avro import AvroSerializer
from confluent_kafka.schema_registry.json_schema import JSONSerializer
from confluent_kafka.schema_registry.protobuf import ProtobufSerializer
from confluent_kafka.serialization import MessageField, SerializationContext

import rayft
from actors.client.errors import ClientError
from tests.integration.arrow.registry import Registry, guid, registry
from tests.integration.arrow.test_write import made

pytest.importorskip("fastavro")
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

pytestmark = pytest.mark.timeout(240)
OLD = {"type": "record", "name": "Order", "namespace": "shop", "fields": [
    {"name": "id", "type": "int"}, {"name": "note", "type": ["null", "string"]}, {"name": "gone", "type": "double"},
]}  # fmt: skip
NEW = {"type": "record", "name": "Order", "namespace": "shop", "fields": [
    {"name": "note", "type": ["null", "string"]}, {"name": "id", "type": "long"},
    {"name": "state", "type": {"type": "enum", "name": "State", "symbols": ["NEW", "PAID"]}, "default": "NEW"},
    {"name": "lines", "type": {"type": "array", "items": "string"}, "default": []},
]}  # fmt: skip
BOMB = {"type": "record", "name": "Bomb", "fields": [{"name": "many", "type": {"type": "array", "items": "null"}}]}


@pytest.fixture
def topic(kafka: Any, name: str) -> str:
    made(kafka, name, 3)
    return name


@pytest.fixture
def schemas() -> Iterator[Registry]:
    with registry() as one:
        yield one


def serialized(
    schemas: Registry, topic: str, schema: Any, values: list[Any], field: str = MessageField.VALUE
) -> list[bytes]:
    """Values as Confluent's serializer writes them."""
    write = AvroSerializer(SchemaRegistryClient({"url": schemas.url}), json.dumps(schema))
    return [write(one, SerializationContext(topic, field)) for one in values]


def produced(kafka: Any, topic: str, values: list[bytes | None], partition: int = 0, key: bytes | None = None) -> None:
    producer = Producer({"bootstrap.servers": kafka.bootstrap_servers})
    for one in values:
        producer.produce(topic, one, key=key, partition=partition)
    assert producer.flush(30) == 0


def orders(kafka: Any, topic: str, schemas: Registry) -> list[Any]:
    """Orders of two schemas in turn, and what they are by the newer one."""
    first = serialized(
        schemas, topic, OLD, [{"id": n, "note": f"n{n}" if n % 2 else None, "gone": 0.5} for n in range(50)]
    )
    then = serialized(
        schemas,
        topic,
        NEW,
        [{"id": 1 << 40, "note": "ö", "state": "PAID", "lines": ["a", "b"][: n % 3]} for n in range(50)],
    )
    produced(kafka, topic, [*first, None, *then, *first])
    old = [{"note": f"n{n}" if n % 2 else None, "id": n, "state": "NEW", "lines": []} for n in range(50)]
    new = [{"note": "ö", "id": 1 << 40, "state": "PAID", "lines": ["a", "b"][: n % 3]} for n in range(50)]
    return [*old, None, *new, *old]


def test_values_of_two_schemas_are_columns_of_the_newer_one(kafka: Any, topic: str, schemas: Registry) -> None:
    expected = orders(kafka, topic, schemas)
    asked = len(schemas.asked)
    reader = rayft.read(
        kafka.bootstrap_servers,
        topic,
        columns=("value", "partition"),
        value_format="avro",
        schema_registry=schemas.url,
    )
    enum = pa.dictionary(pa.int32(), pa.string())
    assert reader.schema.field("value").type == pa.struct([
        pa.field("note", pa.string()), pa.field("id", pa.int64(), False), pa.field("state", enum, False),
        pa.field("lines", pa.list_(pa.field("item", pa.string(), False)), False),
    ])  # fmt: skip
    table = reader.read_all()
    table.validate(full=True)
    assert table.column_names == ["value", "partition"] and table.column("value").to_pylist() == expected
    assert len(schemas.asked) - asked <= 4, "each schema is asked for once"
    older = rayft.read(
        kafka.bootstrap_servers, topic, value_format="avro", value_schema=f"{topic}-value:1", on_error="null",
        config={"schema.registry.url": schemas.url},
    ).read_all()  # fmt: skip
    found = older.column("value").to_pylist()
    assert found[:51] == [*({"id": n, "note": f"n{n}" if n % 2 else None, "gone": 0.5} for n in range(50)), None]
    assert found[51:101] == [None] * 50, "a long is no int"


def test_keys_have_schemas_too(kafka: Any, topic: str, schemas: Registry) -> None:
    (key,) = serialized(schemas, topic, {"type": "string"}, ["k"], MessageField.KEY)
    values = serialized(schemas, topic, {"type": "long"}, [5, 6])
    produced(kafka, topic, list(values), 1, key)
    table = rayft.read(
        kafka.bootstrap_servers, topic, value_format="avro", key_format="avro", schema_registry=schemas.url
    ).read_all()
    assert table.column("key").to_pylist() == ["k", "k"] and table.column("value").to_pylist() == [5, 6]
    assert table.column("offset").to_pylist() == [0, 1]


def test_what_cannot_be_read_is_an_error_or_null_or_kept_as_it_is(kafka: Any, topic: str, schemas: Registry) -> None:
    good = serialized(schemas, topic, NEW, [{"id": 1, "note": None, "state": "NEW", "lines": []}])[0]
    bomb = serialized(schemas, "other", BOMB, [{"many": []}])[0][:5]
    bad = [
        b"text", good[:-2], good + b"\0", b"\0\0\0\0\x63abc", bomb + b"\x80\x80\x80\x80\x80\x80\x80\x80\x20\0",
        good[:5] + b"\x02\x02\xff\x02\0\0",
    ]  # fmt: skip
    reasons = [
        "it does not begin with a schema id", "it ends in the middle, or claims to be longer than it is (schema 1)",
        "bytes stand behind it (schema 1)", "the schema registry has no schema 99 (schema 99)",
        "its schema has record Bomb where record shop.Order is wanted, and no alias says that it is one (schema 2)",
        "it has a text that is not UTF-8 (schema 1)",
    ]  # fmt: skip
    produced(kafka, topic, [good, None])
    produced(kafka, topic, [one for pair in zip(bad, [good] * len(bad), strict=True) for one in pair])
    whole = {"note": None, "id": 1, "state": "NEW", "lines": []}

    def read(on_error: str, **more: Any) -> pa.Table:
        return rayft.read(
            kafka.bootstrap_servers,
            topic,
            value_format="avro",
            schema_registry=schemas.url,
            on_error=on_error,
            **more,
        ).read_all()

    with pytest.raises(ClientError) as told:
        read("fail")
    assert str(told.value) == f"partition {topic}/0, offset 2: the value cannot be read: {reasons[0]}"
    assert read("fail", end={(topic, 0): 2}).num_rows == 2
    expected = [whole, None, *([None, whole] * len(bad))]
    assert read("null").column("value").to_pylist() == expected
    table = read("raw")
    table.validate(full=True)
    assert table.column_names[-2:] == ["value_raw", "value_error"]
    assert table.column("value").to_pylist() == expected
    none = [None] * 2
    assert table.column("value_raw").to_pylist() == [*none, *(one for raw in bad for one in (raw, None))]
    assert table.column("value_error").to_pylist() == [*none, *(one for why in reasons for one in (why, None))]
    many = read("raw", value_schema=2)
    assert many.column("value_error").to_pylist()[10] == "it claims more parts than its bytes may have (schema 2)"


@pytest.mark.parametrize("on_error", ["fail", "null", "raw"])
def test_a_registry_that_is_away_is_no_bad_value(kafka: Any, topic: str, schemas: Registry, on_error: str) -> None:
    orders(kafka, topic, schemas)
    reader = rayft.read(
        kafka.bootstrap_servers, topic, value_format="avro", schema_registry=schemas.url, on_error=on_error
    )
    schemas.status = 503
    with pytest.raises(ClientError, match=r"the schema registry .* does not answer: schema \d was asked for 3 times"):
        reader.read_all()
    schemas.status = 401
    with pytest.raises(ClientError, match="without a login"):
        rayft.read(kafka.bootstrap_servers, topic, value_format="avro", schema_registry=schemas.url, on_error=on_error)


def test_what_is_asked_for_wrongly_is_told(kafka: Any, topic: str, schemas: Registry) -> None:
    server = kafka.bootstrap_servers
    with pytest.raises(ClientError, match=f"has no {topic}-value, version latest: name value_schema"):
        rayft.read(server, topic, value_format="avro", schema_registry=schemas.url)
    schemas.register(f"{topic}-value", {"schema": json.dumps({"type": "record", "name": "R", "fields": [
        {"name": "next", "type": ["null", "R"]}]})})  # fmt: skip
    with pytest.raises(ClientError, match="refers to itself"):
        rayft.read(server, topic, value_format="avro", schema_registry=schemas.url)
    for words, more in [
        ("value_format has to be one of", {"value_format": "xml", "schema_registry": schemas.url}),
        ("on_error has to be one of", {"value_format": "avro", "schema_registry": schemas.url, "on_error": "skip"}),
        ("name schema_registry", {"value_format": "avro"}),
        ("no meaning without value_format", {"value_schema": 1}),
        ("no meaning without the column value", {"value_format": "avro", "columns": ("key",)}),
        ("has to be a URL", {"value_format": "avro", "schema_registry": "localhost"}),
    ]:
        with pytest.raises(ValueError, match=words):
            rayft.read(server, topic, **more)


def messages(schemas: Registry, topic: str, package: str, values: list[dict[str, Any]], **more: int) -> list[bytes]:
    """Messages as Confluent's serializer writes them: by (its type) and cents, and fields of numbers that are `more`."""
    pool = descriptor_pool.DescriptorPool()
    made = descriptor_pb2.FileDescriptorProto(name=f"{package}.proto", package=package, syntax="proto3")
    message = made.message_type.add(name="Paid")
    text = f'syntax = "proto3"; package {package}; message Paid {{ string by = 1; int64 cents = 2; repeated string tags = 3;'
    string, long = descriptor_pb2.FieldDescriptorProto.TYPE_STRING, descriptor_pb2.FieldDescriptorProto.TYPE_INT64
    for name, number, kind, label in [("by", 1, string, 1), ("cents", 2, long, 1), ("tags", 3, string, 3)]:
        message.field.add(name=name, number=number, type=kind, label=label)
    for name, number in more.items():
        message.field.add(name=name, number=number, type=long, label=1)
        text += f" int64 {name} = {number};"
    pool.Add(made)
    kind = message_factory.GetMessageClass(pool.FindMessageTypeByName(f"{package}.Paid"))
    write = ProtobufSerializer(kind, SchemaRegistryClient({"url": schemas.url}), {"use.deprecated.format": False})
    found = [write(kind(**one), SerializationContext(topic, MessageField.VALUE)) for one in values]
    schemas.schemas[schemas.subjects[f"{topic}-value"][-1] - 1]["schema"] = text + " }"  # a registry gives it as text
    return found


def test_messages_of_protobuf_are_columns(kafka: Any, topic: str, schemas: Registry) -> None:
    first = messages(schemas, topic, "shop", [{"by": "Bob", "cents": 5, "tags": ["a", "b"]}, {}])
    other = messages(schemas, f"{topic}-other", "other", [{"by": "x"}])
    then = messages(schemas, topic, "shop", [{"by": "Eve", "late": 7}], late=9)
    (avro,) = serialized(schemas, f"{topic}-avro", {"type": "string"}, ["x"])
    produced(kafka, topic, [*first, None, *then, *other, avro, first[0][:-1]])
    more = {"value_format": "protobuf", "schema_registry": schemas.url}
    table = rayft.read(kafka.bootstrap_servers, topic, on_error="raw", **more).read_all()
    table.validate(full=True)
    assert table.column("value").to_pylist() == [
        {"by": "Bob", "cents": 5, "tags": ["a", "b"], "late": 0}, {"by": "", "cents": 0, "tags": [], "late": 0}, None,
        {"by": "Eve", "cents": 0, "tags": [], "late": 7}, None, None, None,
    ]  # fmt: skip
    assert table.column("value_error").to_pylist() == [
        *[None] * 4, "its schema has message other.Paid where shop.Paid is wanted (schema 2)",
        "its schema is one of AVRO, not of PROTOBUF (schema 4)",
        "it ends in the middle, or claims to be longer than it is (schema 1)",
    ]  # fmt: skip
    with pytest.raises(ClientError, match="is one of PROTOBUF, not of AVRO"):
        rayft.read(kafka.bootstrap_servers, topic, value_format="avro", schema_registry=schemas.url)


def test_objects_of_json_are_columns(kafka: Any, topic: str, schemas: Registry) -> None:
    def written(topic: str, more: dict[str, Any], values: list[Any]) -> list[bytes]:
        line = {"type": "object", "properties": {"sku": {"type": "string"}}}
        schema = {
            "title": "Order", "type": "object", "definitions": {"line": line}, "properties": {
                "id": {"type": "integer"}, "lines": {"type": "array", "items": {"$ref": "#/definitions/line"}}, **more,
            },
        }  # fmt: skip
        write = JSONSerializer(json.dumps(schema), SchemaRegistryClient({"url": schemas.url}))
        return [write(one, SerializationContext(topic, MessageField.VALUE)) for one in values]

    first = written(topic, {"note": {"type": "string"}}, [{"id": 1, "lines": [{"sku": "ä"}], "note": "x"}, {}])
    then = written(topic, {"at": {"type": ["null", "number"]}}, [{"id": 2, "at": 0.5}, {"at": None}])
    last = written(topic, {"at": {"type": "string"}}, [{"id": 3, "at": "noon"}])
    (avro,) = serialized(schemas, f"{topic}-avro", {"type": "string"}, ["x"])
    produced(kafka, topic, [*first, None, *then, *last, avro, first[0][:-1], b"{}"])
    more = {"value_format": "json", "schema_registry": schemas.url, "value_schema": 2}
    table = rayft.read(kafka.bootstrap_servers, topic, on_error="raw", **more).read_all()
    table.validate(full=True)
    assert table.column("value").to_pylist() == [
        {"id": 1, "lines": [{"sku": "ä"}], "at": None}, {"id": None, "lines": None, "at": None}, None,
        {"id": 2, "lines": None, "at": 0.5}, {"id": None, "lines": None, "at": None}, None, None, None, None,
    ]  # fmt: skip
    assert table.column("value_error").to_pylist() == [
        *[None] * 5, "it has a part of another type than its schema says (schema 3)",
        "its schema is one of AVRO, not of JSON (schema 4)", "it is not JSON (schema 1)",
        "it does not begin with a schema id",
    ]  # fmt: skip
    with pytest.raises(ClientError, match=f"partition {topic}/0, offset 5: the value cannot be read: it has a part of"):
        rayft.read(kafka.bootstrap_servers, topic, **more).read_all()


@pytest.mark.parametrize("on_error", ["raw", "fail"])
def test_ids_of_schemas_stand_in_headers(kafka: Any, topic: str, schemas: Registry, on_error: str) -> None:
    """As Confluent's serializers write them when asked to; a topic may have both ways, and values without any."""
    client, write_id = SchemaRegistryClient({"url": schemas.url}), {"schema.id.serializer": header_schema_id_serializer}
    producer = Producer({"bootstrap.servers": kafka.bootstrap_servers})
    for schema, value in (
        (OLD, {"id": 1, "note": "x", "gone": 0.0}),
        (NEW, {"id": 2, "note": None, "state": "PAID", "lines": ["a"]}),
    ):
        headers: list[Any] = [("other", b"\0\0")]
        write = AvroSerializer(client, json.dumps(schema), conf=write_id)
        data = write(value, SerializationContext(topic, MessageField.VALUE, headers))
        assert headers[1][0] == "__value_schema_id"
        producer.produce(topic, data, headers=[*headers[:1], ("__value_schema_id", b"no id"), headers[1]], partition=0)
        producer.produce(topic, None, headers=headers, partition=0)
    (prefixed,) = serialized(schemas, topic, OLD, [{"id": 3, "note": "y", "gone": 0.0}])
    producer.produce(topic, prefixed, partition=0)
    producer.produce(topic, prefixed[5:], headers={"__value_schema_id": prefixed[:5]}, partition=0)
    assert producer.flush(30) == 0
    more = {
        "value_format": "avro",
        "schema_registry": schemas.url,
        "value_schema": f"{topic}-value:2",
        "on_error": on_error,
    }
    first = {"id": 1, "note": "x", "state": "NEW", "lines": []}
    good = [
        first,
        None,
        {"id": 2, "note": None, "state": "PAID", "lines": ["a"]},
        None,
        *[first | {"id": 3, "note": "y"}] * 2,
    ]
    found = rayft.read(kafka.bootstrap_servers, topic, columns=("value",), **more).read_all()
    assert found.column("value").to_pylist() == [
        row and {name: row[name] for name in ("note", "id", "state", "lines")} for row in good
    ]
    gone = b"\1" + uuid.UUID(guid(99)).bytes
    for data, header in (
        (prefixed[5:], gone),
        (prefixed[5:], b"\1short"),
        (prefixed[5:-1], b"\1" + uuid.UUID(guid(1)).bytes),
    ):
        producer.produce(topic, data, headers={"__value_schema_id": header}, partition=0)
    assert producer.flush(30) == 0
    if on_error == "fail":
        with pytest.raises(ClientError, match=f"offset 6: .* the schema registry has no schema {guid(99)}"):
            rayft.read(kafka.bootstrap_servers, topic, **more).read_all()
        return
    found = rayft.read(kafka.bootstrap_servers, topic, **more).read_all().slice(6)
    assert found.column("value_raw").to_pylist() == [prefixed[5:], prefixed[5:], prefixed[5:-1]]
    assert found.column("value_error").to_pylist() == [
        f"the schema registry has no schema {guid(99)} (schema {guid(99)})", "it does not begin with a schema id",
        f"it ends in the middle, or claims to be longer than it is (schema {guid(1)})",
    ]  # fmt: skip


def test_a_loop_goes_on_while_a_registry_is_slow(kafka: Any, topic: str, schemas: Registry) -> None:
    """`async for` waits for it, and nothing else on the loop does; what is given up while it waits is taken up again."""
    values = serialized(schemas, topic, OLD, [{"id": n, "note": "x", "gone": 0.0} for n in range(3)])
    produced(kafka, topic, list(values))
    wanted = schemas.register("wanted", {"schema": json.dumps(NEW)})  # that of the values is asked for later
    more = {"value_format": "avro", "schema_registry": schemas.url, "columns": ("value",), "value_schema": wanted}

    async def followed() -> list[Any]:
        found: list[Any] = []
        following = rayft.follow(kafka.bootstrap_servers, topic, "earliest", **more)
        schemas.wait_s = 1.0
        asked = len(schemas.asked)
        async with following:
            first = asyncio.ensure_future(anext(following))
            while len(schemas.asked) == asked:
                assert not first.done()
                await asyncio.sleep(0.01)
            turns = 0
            while not first.done() and turns < 20:
                await asyncio.sleep(0.01)
                turns += 1
            assert turns == 20, "the loop stood while the registry was asked"
            first.cancel()
            while len(found) < 3:
                found += (await anext(following)).column("value").to_pylist()
        return found

    assert [one["id"] for one in asyncio.run(followed())] == [0, 1, 2]


def test_a_scan_finds_values_by_what_is_in_them(kafka: Any, topic: str, schemas: Registry) -> None:
    expected = orders(kafka, topic, schemas)
    found = rayft.scan(kafka.bootstrap_servers, topic, value_format="avro", schema_registry=schemas.url, on_error="raw")
    found = pickle.loads(pickle.dumps(found))
    assert found.schema.names[-2:] == ["value_raw", "value_error"]
    assert found.to_table(columns=["value"]).column("value").to_pylist() == expected
    many = found.to_table(columns=["offset"], filter=ds.field("value", "id") > 1000)
    assert many.column("offset").to_pylist() == list(range(51, 101))
    assert found.filter(ds.field("offset") < 60).count_rows(ds.field("value").is_null()) == 1
    assert found.to_table(columns=["value_error"], filter=ds.field("offset") >= 100).num_rows == 51
    asked = len(schemas.asked)
    assert found.to_table(columns=["key"]).num_rows == 151 and len(schemas.asked) == asked, "only what is needed"


def test_values_are_followed(kafka: Any, topic: str, schemas: Registry) -> None:
    expected = orders(kafka, topic, schemas)
    more = {"value_format": "avro", "schema_registry": schemas.url, "columns": ("value",)}
    with rayft.follow(kafka.bootstrap_servers, topic, "earliest", on_error="raw", **more) as following:
        found: list[Any] = []
        while len(found) < len(expected):
            batch = following.next_batch(60)
            assert batch is not None and batch.schema.names == ["value", "value_raw", "value_error"]
            found += batch.column("value").to_pylist()
        assert found == expected and following.positions[topic, 0] == 151
        produced(kafka, topic, [b"none"])
        last = following.next_batch(60)
        assert last is not None and last.column("value_raw").to_pylist() == [b"none"]

    async def followed() -> list[Any]:
        found = []
        async with rayft.follow(kafka.bootstrap_servers, topic, {(topic, 0): 100}, **more) as following:
            async for batch in following:
                found += batch.column("value").to_pylist()
        return found

    with pytest.raises(ClientError, match=f"partition {topic}/0, offset 151: the value cannot be read"):
        asyncio.run(followed())
