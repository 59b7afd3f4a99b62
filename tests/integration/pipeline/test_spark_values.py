"""Values by a schema registry as columns of Spark, whose schema is known when a job is planned."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.json_schema import JSONSerializer
from confluent_kafka.serialization import MessageField, SerializationContext

pytest.importorskip("pyspark", reason="PySpark is not installed")

from tests.integration.arrow.registry import Registry, registry
from tests.integration.arrow.test_values import produced, serialized
from tests.integration.pipeline.conftest import Topics
from tests.integration.pipeline.test_spark_batch import frame, refused

pytestmark = [pytest.mark.long, pytest.mark.timeout(600)]
ORDER = {"type": "record", "name": "Order", "fields": [
    {"name": "id", "type": "long"}, {"name": "note", "type": ["null", "string"]},
    {"name": "state", "type": {"type": "enum", "name": "State", "symbols": ["NEW", "PAID"]}},
    {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
    {"name": "open", "type": {"type": "int", "logicalType": "time-millis"}},
    {"name": "lines", "type": {"type": "array", "items": {"type": "record", "name": "Line", "fields": [
        {"name": "sku", "type": "string"}, {"name": "price", "type": {"type": "bytes", "logicalType": "decimal",
                                                                        "precision": 9, "scale": 2}}]}}},
    {"name": "tags", "type": {"type": "map", "values": "int"}},
]}  # fmt: skip
ONE = {
    "id": 7, "note": None, "state": "PAID", "at": 1_700_000_000_123, "open": 5, "tags": {"a": 1},
    "lines": [{"sku": "x", "price": "1.50"}],
}  # fmt: skip


@pytest.fixture
def schemas() -> Iterator[Registry]:
    with registry() as one:
        yield one


def orders(ids: range) -> list[dict[str, Any]]:
    from decimal import Decimal

    return [ONE | {"id": n, "lines": [{"sku": "x", "price": Decimal("1.50")}]} for n in ids]


def test_values_of_avro_are_columns_of_a_job(session: Any, topics: Topics, name: str, schemas: Registry) -> None:
    topics.make(name, 1)
    produced(topics.cluster, name, [*serialized(schemas, name, ORDER, orders(range(20))), b"none", None])
    more = {"subscribe": name, "valueFormat": "avro", "schemaRegistry": schemas.url}
    found = frame(session, topics.servers, onError="null", **more)
    kinds = found.schema["value"].dataType.simpleString()
    assert kinds == (
        "struct<id:bigint,note:string,state:string,at:timestamp,open:int,"
        "lines:array<struct<sku:string,price:decimal(9,2)>>,tags:map<string,int>>"
    )
    told = found.orderBy("offset").selectExpr(
        "offset", "value.id", "value.state", "unix_millis(value.at) at", "value.open", "value.lines[0].price p",
        "value.tags['a'] a",
    ).collect()  # fmt: skip
    assert [row[1] for row in told] == [*range(20), None, None]
    assert [str(one) for one in told[3][2:]] == ["PAID", "1700000000123", "5", "1.50", "1"]
    raw = frame(session, topics.servers, onError="raw", columns="value,partition", **more)
    assert raw.columns == ["value", "partition", "value_raw", "value_error"]
    bad = raw.where("value_error is not null").select("value_raw", "value_error").collect()
    assert [(bytes(row[0]), row[1]) for row in bad] == [(b"none", "it does not begin with a schema id")]
    assert f"partition {name}/0, offset 20: the value cannot be read" in refused(
        lambda: frame(session, topics.servers, **more).collect()
    )
    assert "valueFormat" in refused(lambda: frame(session, topics.servers, subscribe=name, valueFormt="avro").collect())
    assert "has no other-value" in refused(
        lambda: frame(session, topics.servers, **more | {"valueSchema": "other-value"}).collect()
    )


def test_objects_of_json_are_columns_of_a_query(
    session: Any, topics: Topics, name: str, schemas: Registry, tmp_path: Path
) -> None:
    topics.make(name, 1)
    schema = {"title": "Order", "type": "object", "properties": {"id": {"type": "integer"}, "any": {"type": "object"}}}
    write = JSONSerializer(json.dumps(schema), SchemaRegistryClient({"url": schemas.url}))
    values = [write({"id": n, "any": {"n": n}}, SerializationContext(name, MessageField.VALUE)) for n in range(5)]
    produced(topics.cluster, name, list(values))
    reader = session.readStream.format("rayft").option("kafka.bootstrap.servers", topics.servers)
    options = {"subscribe": name, "startingOffsets": "earliest", "valueFormat": "json", "schemaRegistry": schemas.url}
    found = reader.options(**options).load().selectExpr("value.id", "value.any")
    query = found.writeStream.format("parquet").option("checkpointLocation", str(tmp_path / "checkpoint"))
    query.trigger(availableNow=True).start(str(tmp_path / "rows")).awaitTermination(240)
    told = session.read.parquet(str(tmp_path / "rows")).orderBy("id").collect()
    assert [(row[0], row[1]) for row in told] == [(n, f'{{"n":{n}}}') for n in range(5)]
