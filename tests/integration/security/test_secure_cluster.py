"""A cluster that `rayft up` has made secure, and one built by hand: who gets in, and where secrets are."""

import json
import os
import re
import shutil
import socket
import ssl
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import rayft
from actors.authentication.client import PlainLogin
from actors.host.cluster import probe, secure_cluster
from actors.host.cluster.access import Access, client_access, node_access
from actors.host.work.system_random import SystemRandom, uuid_text
from actors.settings.node_config import node_config
from actors.settings.properties import properties
from actors.wire.messages import message
from bench.ports import free_ports
from tests.integration.conftest import ROOT, Java, command, until
from tests.integration.files import looked_at
from tests.integration.security.leaks import keys_below, leaks
from tests.integration.security.nodes import SecureCluster

confluent_kafka = pytest.importorskip("confluent_kafka")
admin = pytest.importorskip("confluent_kafka.admin")
ALICE = "alice-secret-7781"
SECRET_FILES = {"client.properties", "librdkafka.conf"}
CLUSTER_AUTHORIZATION_FAILED = 31


@pytest.fixture(scope="module")
def protected(tmp_path_factory: pytest.TempPathFactory) -> Iterator["rayft.Cluster"]:
    home = tmp_path_factory.mktemp("protected") / "c"
    config = {"offsets.topic.num.partitions": "2", "group.initial.rebalance.delay.ms": "0", "super.users": "User:boss"}
    with rayft.Cluster(1, 2, home, config, secure=True) as cluster:
        yield cluster


def as_user(cluster: "rayft.Cluster", name: str, password: str) -> dict[str, Any]:
    return cluster.client_settings | {
        "sasl.username": name,
        "sasl.password": password,
        "reconnect.backoff.max.ms": 200,
        "log_level": 0,
    }


def test_the_operators_file_is_enough_for_everything(protected: "rayft.Cluster", name: str) -> None:
    settings = protected.client_settings
    operator = admin.AdminClient(settings)
    operator.create_topics([admin.NewTopic(name, 2, 2)])[name].result(20)
    producer = confluent_kafka.Producer(settings | {"acks": "all"})
    producer.produce(name, b"hello")
    assert producer.flush(20) == 0
    consumer = confluent_kafka.Consumer(settings | {"group.id": name, "auto.offset.reset": "earliest"})
    consumer.subscribe([name])
    read = consumer.poll(20)
    consumer.close()
    assert read is not None and read.value() == b"hello"


def test_others_get_in_with_a_user_of_their_own_and_do_what_rules_allow(protected: "rayft.Cluster", name: str) -> None:
    operator = admin.AdminClient(protected.client_settings)
    operator.create_topics([admin.NewTopic(name, 1, 2)])[name].result(20)
    mechanism = admin.ScramMechanism.SCRAM_SHA_256
    added = admin.UserScramCredentialUpsertion("alice", admin.ScramCredentialInfo(mechanism, 4096), ALICE.encode())
    operator.alter_user_scram_credentials([added])["alice"].result(20)
    alice = admin.AdminClient(as_user(protected, "alice", ALICE) | {"sasl.mechanism": "SCRAM-SHA-256"})
    until(lambda: _topics(alice) == set())
    rule = admin.AclBinding(
        admin.ResourceType.TOPIC, name, admin.ResourcePatternType.LITERAL, "User:alice", "*",
        admin.AclOperation.DESCRIBE, admin.AclPermissionType.ALLOW,
    )  # fmt: skip
    next(iter(operator.create_acls([rule]).values())).result(20)
    until(lambda: _topics(alice) == {name})


def _topics(client: Any) -> set[str] | None:
    try:
        return set(client.list_topics(timeout=3).topics)
    except confluent_kafka.KafkaException:
        return None


@pytest.mark.parametrize("case", ["plaintext", "no login", "wrong password", "another authority"])
def test_who_lacks_something_gets_nowhere(protected: "rayft.Cluster", case: str, tmp_path: Path) -> None:
    settings = as_user(protected, "admin", protected.client_settings["sasl.password"])
    if case == "plaintext":
        settings = {"bootstrap.servers": protected.bootstrap_servers, "log_level": 0}
    elif case == "no login":
        settings = {key: value for key, value in settings.items() if not key.startswith("sasl.")}
        settings["security.protocol"] = "ssl"
    elif case == "wrong password":
        settings["sasl.password"] = "admin"
    else:
        command("certificate", "authority", "--dir", str(tmp_path))
        settings["ssl.ca.location"] = str(tmp_path / "ca.pem")
    assert _topics(admin.AdminClient(settings)) is None


def test_nodes_let_in_only_who_shows_a_certificate_and_rights_count_there_too(
    protected: "rayft.Cluster", tmp_path: Path
) -> None:
    home = protected.dir / "security"
    ran = command("certificate", "client", "--dir", str(home), "--name", "mallory")
    assert ran.returncode == 0, ran.stderr
    host, port = protected.address(1001)
    cls = message("DescribeQuorumRequest")
    part = cls.PartitionData(partition_index=0)
    request = cls(topics=[cls.TopicData(topic_name=probe.TOPIC, partitions=[part])])
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.load_verify_locations(home / "ca.pem")
    with pytest.raises(probe.NoAnswer):
        probe.ask((host, port), "DescribeQuorum", request, 1)
    with pytest.raises(probe.NoAnswer):
        probe.ask(Access(host, port, context), "DescribeQuorum", request, 1)
    context.load_cert_chain(home / "mallory.pem")
    assert (
        probe.ask(Access(host, port, context), "DescribeQuorum", request, 1).error_code == CLUSTER_AUTHORIZATION_FAILED
    )
    assert protected.quorum().leader_id == 1001, "the command shows a node's certificate"


def test_status_and_restart_work_as_ever(protected: "rayft.Cluster") -> None:
    ran = command("status", "--json", "--dir", str(protected.dir))
    found = json.loads(ran.stdout)
    assert ran.returncode == 0 and found["partitions"] is not None and found["leader_id"] == 1001
    protected.restart(2)
    admin.AdminClient(protected.client_settings).list_topics(timeout=20)


def test_the_command_logs_in_where_nodes_do(secure: SecureCluster) -> None:
    """Nodes that know each other by SASL, in files that somebody wrote by hand."""
    config = node_config(properties((secure.logs[0].parent / "node-1.properties").read_text()))
    assert probe.quorum([node_access(config, controller=True)]).leader_id == 1001
    assert probe.partitions([node_access(config, controller=False)]).offline == 0
    assert probe.serves(client_access(config))
    door = node_access(config, controller=True)
    with pytest.raises(probe.NoAnswer, match="its login was refused"):
        probe.quorum([door._replace(login=lambda: ("PLAIN", PlainLogin("admin", "wrong")))])


def test_kafkas_own_tools_take_the_operators_file(protected: "rayft.Cluster", java: Java, name: str) -> None:
    file, servers = protected.dir / "security" / "client.properties", protected.bootstrap_servers
    tool = "org.apache.kafka.tools.TopicCommand"
    java.run(tool, "--bootstrap-server", servers, "--command-config", str(file), "--create", "--topic", name)
    assert name in (_topics(admin.AdminClient(protected.client_settings)) or ())


@pytest.mark.parametrize("how", ["directory", "file"])
def test_the_command_takes_the_operators_login(protected: "rayft.Cluster", name: str, how: str) -> None:
    """From the directory, or from the file, which has the addresses too; a wrong password is told, and not tried again."""
    file = protected.dir / "security" / "client.properties"
    where = ("--dir", str(protected.dir)) if how == "directory" else ("--config", str(file))
    made = command("topic", "create", name, *where)
    assert (made.returncode, made.stdout) == (0, f"created topic {name}\n"), made.stderr
    assert name in command("topic", "list", *where).stdout
    assert command("health", *where).returncode == 0
    wrong = protected.dir.parent / "wrong.properties"
    wrong.write_text(file.read_text() + f"sasl.username=admin\nsasl.password=not-{name}\n")
    refused = command("topic", "list", "--config", str(wrong))
    wrong.unlink()
    assert refused.returncode == 1 and refused.stderr.count("\n") == 1 and name not in refused.stderr
    assert "SASL_AUTHENTICATION_FAILED" in refused.stderr or "login" in refused.stderr, refused.stderr


def test_kcat_takes_the_other_file(protected: "rayft.Cluster") -> None:
    kcat = shutil.which("kcat")
    if kcat is None:
        pytest.skip("no kcat on the path")
    version = re.search(r"librdkafka (\d+)\.(\d+)\.(\d+)", subprocess.check_output([kcat, "-V"], text=True))
    if version is None or tuple(map(int, version.groups())) < (2, 6, 1):
        pytest.skip("kcat has a librdkafka before 2.6.1, whose SCRAM neither Apache Kafka 4 nor rayft accepts")
    conf = protected.dir / "security" / "librdkafka.conf"
    ran = subprocess.run([kcat, "-F", str(conf), "-L"], capture_output=True, text=True, timeout=60, check=False)
    assert "2 brokers" in ran.stdout, ran.stderr


def test_secrets_are_nowhere_but_in_their_files_and_nobody_else_reads_anything(
    protected: "rayft.Cluster", name: str, tmp_path: Path
) -> None:
    settings = protected.client_settings
    password, keys = settings["sasl.password"], keys_below(protected.dir / "security")
    assert len(keys) >= 4, "the authority's and one of each node"
    _topics(admin.AdminClient(as_user(protected, "admin", "not-" + password)))
    operator = admin.AdminClient(settings)
    resource = admin.ConfigResource(admin.ResourceType.BROKER, "1")
    described = [
        f"{entry.name}={entry.value} {list(entry.synonyms)}"
        for future in operator.describe_configs([resource]).values()
        for entry in future.result(20).values()
    ]
    assert any("ssl.keystore.location" in line for line in described)
    printed = tmp_path / "printed"
    printed.mkdir()
    home = str(protected.dir)
    for number, arguments in enumerate(
        (
            ("status", "--dir", home),
            ("dump", *map(str, protected.dir.glob("controller-1001/__kafka_metadata-0/*.log"))),
            ("dump", str(protected.dir / "controller-1001" / "bootstrap.checkpoint")),
            ("replay", home, "--table", "scram", "--json"),
            ("replay", home, "--table", "log", "--json", "--limit", "0"),
            ("up", "--dir", home, "--set", "ssl.keystore.password=" + password),
        )
    ):
        ran = command(*arguments)
        (printed / str(number)).write_text(ran.stdout + ran.stderr)
    (printed / "described").write_text("\n".join(described))
    found = leaks([protected.dir, printed], [password, *keys])
    mine = {"ca.key", "rayft-node-1.pem", "rayft-node-2.pem", "rayft-node-1001.pem"}
    assert {path.name for path in found} - {"mallory.pem"} == SECRET_FILES | mine, found
    for path, about in looked_at((protected.dir, *protected.dir.rglob("*"))):
        assert stat.S_IMODE(about.st_mode) & 0o077 == 0, f"others may read {path}"


def test_up_says_how_to_log_in_and_refuses_what_would_undo_it(tmp_path: Path) -> None:
    up = ("up", "--controllers", "1", "--brokers", "1", "--combined", "--port", "0", "--dir", str(tmp_path / "c"))
    ran = command(*up, "--secure", "--set", "ssl.truststore.location=/elsewhere.pem")
    assert ran.returncode == 1 and "ssl.truststore.location is decided by rayft up" in ran.stderr
    assert not list(tmp_path.glob("c/*")), "nothing of it is left"
    ran = command(*up, "--secure", "--detach")
    try:
        assert ran.returncode == 0, ran.stderr
        password = secure_cluster.librdkafka(tmp_path / "c")["sasl.password"]
        assert password not in ran.stdout
        lines = ran.stdout.splitlines()
        (first,) = [at for at, line in enumerate(lines) if line.startswith("clients log in as admin")]
        assert "kafka-topics.sh" in lines[first + 1] and "kcat -F" in lines[first + 2]
        ran = command("up", "--dir", str(tmp_path / "c"), "--insecure")
        assert ran.returncode == 1 and "leave --insecure out" in ran.stderr
        command("down", "--dir", str(tmp_path / "c"))
        file, keys = (
            tmp_path / "c" / "security" / "client.properties",
            tmp_path / "c" / "security" / "rayft-node-1-1001.pem",
        )
        for path in (file, keys):
            path.chmod(0o644)
        assert command("up", "--dir", str(tmp_path / "c"), "--detach").returncode == 0
        for log, path in (("supervisor.log", file), ("node-1.log", keys)):
            assert f"{path} has secrets and is open to others" in (tmp_path / "c" / log).read_text()
    finally:
        command("down", "--dir", str(tmp_path / "c"))


def test_a_node_by_hand_has_certificates_a_user_and_values_from_elsewhere(tmp_path: Path) -> None:
    """What docs/security.md tells an operator to do, on one machine."""
    clients, nodes, controller = free_ports(3)
    home = tmp_path / "security"
    assert command("certificate", "authority", "--dir", str(home)).returncode == 0
    ran = command("certificate", "node", "--dir", str(home), "--id", "1", "--id", "1001", "--host", "127.0.0.1")
    assert ran.returncode == 0, ran.stderr
    file = tmp_path / "node.properties"
    file.write_text(
        f"""process.roles=broker,controller
broker.id=1
controller.id=1001
listeners=CLIENTS://127.0.0.1:{clients},NODES://127.0.0.1:{nodes},CONTROLLER://127.0.0.1:{controller}
controller.listeners=CONTROLLER
controller.connect=1001@127.0.0.1:{controller}
log.dirs={tmp_path / "data"}
listener.security.protocol.map=CLIENTS:SASL_SSL,NODES:SSL,CONTROLLER:SSL
inter.broker.listener.name=NODES
sasl.enabled.mechanisms=SCRAM-SHA-512
config.providers=env,dir
config.providers.env.class=org.apache.kafka.common.config.provider.EnvVarConfigProvider
config.providers.env.param.allowlist.pattern=RAYFT_[A-Z]+
config.providers.dir.class=org.apache.kafka.common.config.provider.DirectoryConfigProvider
config.providers.dir.param.allowed.paths={home}
ssl.keystore.location=${{env:RAYFT_KEYS}}
ssl.truststore.type=PEM
ssl.truststore.certificates=${{dir:{home}:ca.pem}}
listener.name.nodes.ssl.client.auth=required
listener.name.controller.ssl.client.auth=required
ssl.principal.mapping.rules={secure_cluster.files.PRINCIPAL}
authorizer.class.name={secure_cluster.AUTHORIZER}
super.users=User:rayft-node-1-1001;User:admin
offsets.topic.replication.factor=1
"""
    )
    around = os.environ | {"RAYFT_KEYS": str(home / "rayft-node-1-1001.pem")}

    def rayft_with(*arguments: str) -> "subprocess.Popen[str]":
        return subprocess.Popen(
            [sys.executable, "-m", "actors.command.cli", *arguments],
            cwd=ROOT, env=around, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        )  # fmt: skip

    ran = command("node", "--config", str(file))
    assert ran.returncode == 3 and "${env:RAYFT_KEYS}, and there is no such variable" in ran.stderr
    user = f"SCRAM-SHA-512=[name=admin,password={ALICE}]"
    identity = uuid_text(SystemRandom().uuid())
    formatted = rayft_with(
        "format", "--config", str(file), "--cluster-id", identity, "--standalone", "--add-scram", user
    )
    said, _ = formatted.communicate(timeout=60)
    assert formatted.returncode == 0 and ALICE not in said, said
    node = rayft_with("node", "--config", str(file))
    try:
        settings = {
            "bootstrap.servers": f"127.0.0.1:{clients}",
            "security.protocol": "sasl_ssl",
            "sasl.mechanism": "SCRAM-SHA-512",
            "sasl.username": "admin",
            "sasl.password": ALICE,
            "ssl.ca.location": str(home / "ca.pem"),
            "log_level": 0,
        }
        operator = admin.AdminClient(settings)
        until(lambda: _topics(operator) == set())
        operator.create_topics([admin.NewTopic("t", 1, 1)])["t"].result(20)
    finally:
        node.terminate()
        node.communicate(timeout=30)
    assert leaks([tmp_path / "data"], [ALICE, *keys_below(home)]) == set()


def test_another_address_is_secure_unless_somebody_wrote_otherwise(tmp_path: Path) -> None:
    """This machine's own address, where nothing listens: the ports are only reserved while the files are written."""
    from actors.host.cluster import plan as plans

    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as unsent:
        try:
            unsent.connect(("192.0.2.254", 9))  # says by which address this machine would send; nothing is sent
            address = str(unsent.getsockname()[0])
        except OSError:
            pytest.skip("this machine has no address but those of loopback")
    made = plans.create(tmp_path / "secure", 1, 1, common={}, host=address)
    assert made.secure and {x.protocol for m in made.members for x in m.config.listeners} == {"SASL_SSL", "SSL"}
    made = plans.create(tmp_path / "open", 1, 1, common={}, host=address, secure=False)
    assert not made.secure and {x.protocol for m in made.members for x in m.config.listeners} == {"PLAINTEXT"}
