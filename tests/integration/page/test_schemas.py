"""Values with schemas of a registry, as the page shows them and as files; and a registry that goes away."""

import http.server
import io
import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pyarrow.parquet as pq
import pytest
from confluent_kafka import Producer

import rayft
from actors.client.operations import topics
from actors.host.client.blocking import connect
from tests.integration.conftest import command
from tests.integration.page.opened import Page, page

fastavro = pytest.importorskip("fastavro")
AVRO = {"type": "record", "name": "Order", "namespace": "shop", "fields": [
    {"name": "id", "type": "long"}, {"name": "note", "type": ["null", "string"]}]}  # fmt: skip
PROTO = 'syntax = "proto3"; package shop; message Paid { string by = 1; int64 cents = 2; }'
ANSWERS = {
    "/schemas/ids/1": {"schema": json.dumps(AVRO)},
    "/schemas/ids/2": {"schema": PROTO, "schemaType": "PROTOBUF"},
}


class Registry(http.server.BaseHTTPRequestHandler):
    """What a registry answers."""

    def do_GET(self) -> None:
        told = ANSWERS.get(self.path)
        self.send_response(404 if told is None else 200)
        self.end_headers()
        self.wfile.write(json.dumps(told).encode())

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@contextmanager
def registry() -> Iterator[str]:
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Registry) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}"
        finally:
            server.shutdown()
            thread.join()


def written(cluster: rayft.Cluster, name: str) -> list[bytes]:
    """A topic with five values: Avro, Protobuf, text, a schema that nobody knows, bytes that are no value of theirs."""
    with connect(cluster.bootstrap_servers) as kafka:
        kafka.run(topics.create([topics.NewTopic(name, 1, 1)]))
    out = io.BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(AVRO), {"id": 1 << 60, "note": "<b>"})
    values = [
        b"\0\0\0\0\x01" + out.getvalue(), b"\0\0\0\0\x02\0" + b"\x0a\x03Bob\x10\x96\x01", b"text", b"\0\0\0\0\x09abc",
        b"\0\0\0\0\x01\xff",
    ]  # fmt: skip
    producer = Producer({"bootstrap.servers": cluster.bootstrap_servers})
    for one in values:
        producer.produce(name, one, key="k", partition=0, headers=[("h", b"\xff")])
    assert producer.flush(30) == 0
    return values


def told(opened: Page, name: str, **query: object) -> list[dict[str, str]]:
    """The values of a topic, as events tell them."""
    status, body, _ = opened.ask(f"/topics/{name}/records", **{"from": "earliest"}, **query)
    assert status == 200
    events = [one.split("\ndata: ") for one in body.decode().split("\n\n") if "\ndata: " in one]
    assert events[-1][0] == "event: end", events[-1]
    return [row["value"] for kind, data in events if kind == "event: records" for row in json.loads(data)]


def test_values_are_shown_by_their_schemas_and_kept_as_files(cluster: rayft.Cluster, name: str) -> None:
    values = written(cluster, name)
    with registry() as url, page("-b", cluster.bootstrap_servers, "--schema-registry", url) as opened:
        assert opened.get("")["has_registry"]
        avro, proto, text, unknown, wrong = told(opened, name)
        assert json.loads(avro["decoded"]) == {"id": str(1 << 60), "note": "<b>"}
        assert avro["schema"] == "Order, Avro, schema 1"
        assert json.loads(proto["decoded"]) == {"by": "Bob", "cents": 150}
        assert proto["schema"] == "shop.Paid, Protobuf, schema 2"
        assert "schema" not in text and text["text"] == "text"
        assert "decoded" not in unknown and unknown["schema"] == "the schema registry has no schema 9"
        assert "decoded" not in wrong and wrong["schema"].startswith("it is no value of schema 1: ")
        _, body, headers = opened.ask(f"/topics/{name}/export", **{"from": "earliest"})
        lines = [json.loads(one)["value"] for one in body.decode().splitlines()]
        assert lines[:3] == [{"id": str(1 << 60), "note": "<b>"}, {"by": "Bob", "cents": 150}, "text"]
        assert set(lines[4]) == {"base64"} and headers["content-disposition"].endswith('.jsonl"')
        _, body, headers = opened.ask(f"/topics/{name}/export", **{"from": "earliest", "format": "parquet"})
        table = pq.read_table(io.BytesIO(body))
        assert headers["content-disposition"].endswith('.parquet"')
        assert table["value"].to_pylist() == values and table["offset"].to_pylist() == [0, 1, 2, 3, 4]
        assert table["key"].to_pylist() == [b"k"] * 5
        assert table["headers"].to_pylist() == [[{"key": "h", "value": b"\xff"}]] * 5
        assert abs(table["timestamp"][0].as_py().timestamp() - time.time()) < 600
        _, body, _ = opened.ask(f"/topics/{name}/export", **{"from": "5", "format": "parquet"})
        assert len(pq.read_table(io.BytesIO(body))) == 0, "a file without records is a file"
        _, body, _ = opened.ask(f"/topics/{name}/export", **{"from": "earliest", "format": "parquet", "n": 2})
        assert len(pq.read_table(io.BytesIO(body))) == 2
        assert opened.ask(f"/topics/{name}/export", format="csv")[0] == 400


def test_a_registry_that_is_away_costs_a_sentence(cluster: rayft.Cluster, name: str) -> None:
    written(cluster, name)
    with registry() as url:
        pass
    with page("-b", cluster.bootstrap_servers, "--schema-registry", url) as opened:
        found = told(opened, name)
        assert [one.get("schema", "") for one in found[:3]] == [f"the schema registry {url} does not answer"] * 2 + [""]
        assert all("base64" in one or "text" in one for one in found), "the bytes are shown"


def test_what_is_no_registry_is_refused_at_once(cluster: rayft.Cluster) -> None:
    done = command("ui", "-b", cluster.bootstrap_servers, "--port", "0", "--schema-registry", "localhost")
    assert done.returncode == 1 and "has to be a URL" in done.stderr and done.stderr.count("\n") == 1
