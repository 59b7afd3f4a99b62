"""What `ops/` has for systemd, containers and Kubernetes: linted, held against what nodes do, and run: the script, settings
and values that the pods mount start a cluster here, on loopback."""

import os
import re
import shutil
import signal
import subprocess
import sys
import time
import tomllib
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any
from urllib.error import URLError
from urllib.request import urlopen

import pytest
import yaml

from actors.broker.lifecycle.lifecycle import STOP_LIMIT_MS
from actors.host.cluster import probe
from actors.host.work.system_random import SystemRandom, uuid_text
from actors.settings.node_config import node_config
from actors.settings.properties import properties
from bench.ports import first_of
from tests.integration.conftest import ROOT, until
from tests.leavings import MARK

OPS = ROOT / "ops"
BASE = OPS / "kubernetes"
CONFIG = BASE / "config"
KUSTOMIZATION = yaml.safe_load((BASE / "kustomization.yaml").read_text())
ROLES = {"controller": ("rayft-controllers", 9093), "broker": ("rayft-brokers", 9092)}
TOO_LONG_S = 60


def documents() -> list[Any]:
    """What Kustomize makes of the base: by kubectl where it is there, else the files as they are."""
    if shutil.which("kubectl"):
        made = subprocess.run(["kubectl", "kustomize", str(BASE)], capture_output=True, text=True, timeout=120)
        assert made.returncode == 0, made.stderr
        return list(yaml.safe_load_all(made.stdout))
    return [one for name in KUSTOMIZATION["resources"] for one in yaml.safe_load_all((BASE / name).read_text())]


@pytest.fixture(scope="module")
def objects() -> dict[tuple[str, str], Any]:
    return {(one["kind"], one["metadata"]["name"]): one for one in documents()}


def selects(selector: dict[str, str], labels: dict[str, str]) -> bool:
    return bool(selector) and selector.items() <= labels.items()


def test_every_object_fits_the_schema_of_kubernetes(objects: dict[tuple[str, str], Any]) -> None:
    schemas = pytest.importorskip("kubernetes_validate", reason="needs kubernetes-validate, which has the schemas")
    for one in objects.values():
        schemas.validate(one, "1.31", strict=True)


@pytest.mark.parametrize("role", ROLES)
def test_pods_services_probes_and_volumes_belong_together(role: str, objects: dict[tuple[str, str], Any]) -> None:
    service_name, number = ROLES[role]
    spec = objects["StatefulSet", f"rayft-{role}"]["spec"]
    labels, pod = spec["template"]["metadata"]["labels"], spec["template"]["spec"]
    (container,) = pod["containers"]
    ports = {one["name"]: one["containerPort"] for one in container["ports"]}
    assert selects(spec["selector"]["matchLabels"], labels) and spec["serviceName"] == service_name
    service = objects["Service", service_name]["spec"]
    assert service["clusterIP"] == "None" and service["publishNotReadyAddresses"], (
        "controllers meet before they are ready"
    )
    assert selects(service["selector"], labels)
    assert {ports[one["targetPort"]] for one in service["ports"]} == {number, 9404}
    budget = objects["PodDisruptionBudget", f"rayft-{role}"]["spec"]
    assert selects(budget["selector"]["matchLabels"], labels) and budget["maxUnavailable"] == 1 < spec["replicas"] / 2
    for probe_name, path in (("startupProbe", "/live"), ("livenessProbe", "/live"), ("readinessProbe", "/ready")):
        asked = container[probe_name]["httpGet"]
        assert (asked["path"], ports[asked["port"]]) == (path, 9404)
        assert container[probe_name]["timeoutSeconds"] <= container[probe_name]["periodSeconds"]
    volumes = {one["name"] for one in pod["volumes"]}
    claims = {one["metadata"]["name"] for one in spec["volumeClaimTemplates"]}
    mounts = {one["name"]: one["mountPath"] for one in container["volumeMounts"]}
    assert set(mounts) == volumes | claims and not volumes & claims
    written = properties((CONFIG / f"{role}.properties").read_text())
    assert written["log.dirs"].startswith(mounts["data"] + "/"), "a new file system has a folder of its own in its root"
    assert written["rayft.metrics.listen"] == "0.0.0.0:9404"
    assert container["command"] == ["sh", f"{mounts['config']}/node.sh", role]
    assert selects(objects["Service", "rayft"]["spec"]["selector"], labels) is (role == "broker")
    security = pod["securityContext"] | container["securityContext"]
    assert (
        security["runAsNonRoot"]
        and security["readOnlyRootFilesystem"]
        and security["capabilities"] == {"drop": ["ALL"]}
    )
    if shutil.which("kubectl"):
        maps = {name for kind, name in objects if kind == "ConfigMap"}
        named = {one["configMapRef"]["name"] for one in container["envFrom"]}
        named |= {one["configMap"]["name"] for one in pod["volumes"] if "configMap" in one}
        assert named == maps and all(re.search(r"-[a-z0-9]{10}$", name) for name in maps), "a change rolls the pods"


def test_whoever_ends_a_node_waits_for_its_controlled_shutdown(objects: dict[tuple[str, str], Any]) -> None:
    graceful_s = STOP_LIMIT_MS / 1000
    assert (
        objects["StatefulSet", "rayft-broker"]["spec"]["template"]["spec"]["terminationGracePeriodSeconds"] > graceful_s
    )
    assert int(re.search(r"TimeoutStopSec=(\d+)", unit("rayft@.service"))[1]) > graceful_s  # type: ignore[index]


def test_names_that_settings_and_quorum_have_are_those_of_pods() -> None:
    replicas = next(one for one in documents() if one["metadata"]["name"] == "rayft-controller")["spec"]["replicas"]
    pods = [f"rayft-controller-{number}.rayft-controllers:9093" for number in range(replicas)]
    values = environment()
    assert values["INITIAL_CONTROLLERS"].split(",") == [
        f"{1001 + number}@{pod}:write-rayft-random-id" for number, pod in enumerate(pods)
    ]
    for role in ROLES:
        written = properties((CONFIG / f"{role}.properties").read_text())
        assert written["controller.connect"].split(",") == pods
        more = {"listeners": "CONTROLLER://:9093"} if role == "controller" else {}
        node_config(written | more | {f"{role}.id": "1001"})


def environment() -> dict[str, str]:
    return dict(line.split("=", 1) for line in (CONFIG / "cluster.env").read_text().splitlines())


# ---- systemd and the image


def unit(name: str) -> str:
    return (OPS / "systemd" / name).read_text()


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="needs systemd-analyze")
@pytest.mark.parametrize("name", ["rayft@.service", "rayft-metrics.service"])
def test_systemd_takes_the_unit_and_finds_it_hardened(name: str, tmp_path: Path) -> None:
    shutil.copy(OPS / "systemd" / name, tmp_path / name)
    environment = os.environ | {"SYSTEMD_LOG_LEVEL": "warning"}
    command = ["systemd-analyze", "verify", "--man=no", str(tmp_path / name)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, env=environment)
    assert (done.returncode, done.stderr.strip()) == (0, "")
    command = ["systemd-analyze", "security", "--offline=true", "--no-pager", "--threshold=30", str(tmp_path / name)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, env=environment)
    assert done.returncode == 0, done.stdout[-400:]


def test_the_image_is_made_of_what_a_wheel_is_made_of() -> None:
    text = (OPS / "Containerfile").read_text()
    copied = {source for line in text.splitlines() if line.startswith("COPY ") for source in line.split()[1:-1]}
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    found, tool = project["project"], project["tool"]["setuptools"]
    wanted = {"pyproject.toml", "setup.py", found["readme"], *found["license-files"], "actors", "fastpath", "rayft.py"}
    assert copied >= wanted | {f"{name}.py" for name in tool.get("py-modules", ())} and all(
        (ROOT / one).exists() for one in copied
    )
    extras = re.search(r"pip wheel .* '\.\[(.*)\]'", text)
    assert extras is not None and set(extras[1].split(",")) <= set(found["optional-dependencies"])
    assert re.search(r"^USER 1001:1001$", text, re.MULTILINE) and "STOPSIGNAL SIGTERM" in text
    for spec in (one["spec"]["template"]["spec"] for one in documents() if one["kind"] == "StatefulSet"):
        assert spec["securityContext"]["runAsUser"] == 1001


# ---- the pods' own command


class Pods:
    """The six pods as processes: what differs from a cluster is where names lead and which ports are free."""

    def __init__(self, directory: Path, kept: ExitStack) -> None:
        self.directory = directory
        self.port = first_of(12)
        self._kept = kept
        (directory / "bin").mkdir()
        rayft = directory / "bin" / "rayft"
        rayft.write_text(f'#!/bin/sh\nexec {sys.executable} -m actors.command.cli "$@"\n')
        rayft.chmod(0o755)
        self.values = environment()
        random = SystemRandom()
        self.values = {name: self._here(text) for name, text in self.values.items()}
        self.values["CLUSTER_ID"] = uuid_text(random.uuid())
        while "write-rayft-random-id" in self.values["INITIAL_CONTROLLERS"]:
            ids = self.values["INITIAL_CONTROLLERS"].replace("write-rayft-random-id", uuid_text(random.uuid()), 1)
            self.values["INITIAL_CONTROLLERS"] = ids
        self.processes: dict[str, subprocess.Popen[bytes]] = {}

    def _here(self, text: str) -> str:
        for number in range(3):
            text = text.replace(f"rayft-controller-{number}.rayft-controllers:9093", f"127.0.0.1:{self.port + number}")
        return text

    def place(self, pod: str) -> int:
        role, number = pod.split("-")[1:]
        return int(number) + (3 if role == "broker" else 0)

    def start(self, pod: str, **changed: str) -> None:
        role = pod.split("-")[1]
        folder = self.directory / pod
        if not folder.exists():
            folder.mkdir()
            for name in ("node.sh", f"{role}.properties"):
                shutil.copy(CONFIG / name, folder)
            file = folder / f"{role}.properties"
            file.write_text(self._here(file.read_text()).replace("/var/lib/rayft/", f"{folder}/"))
        port = self.port + self.place(pod)
        listener = f"{'CONTROLLER' if role == 'controller' else 'PLAINTEXT'}://127.0.0.1:{port}"
        more = {"listeners": listener, "advertised.listeners": listener,
                "rayft.metrics.listen": f"127.0.0.1:{port + 6}"}  # fmt: skip
        given = {
            "PATH": f"{self.directory / 'bin'}:{os.environ['PATH']}", "PYTHONPATH": str(ROOT), "POD_NAME": pod,
            MARK: os.environ[MARK],
            "RAYFT_CONFIG": str(folder), "RAYFT_SETTINGS": " ".join(f"--set {name}={text}" for name, text in more.items()),
        }  # fmt: skip
        (command,) = [
            one["spec"]["template"]["spec"]["containers"][0]["command"]
            for one in documents()
            if one["kind"] == "StatefulSet" and one["metadata"]["name"] == f"rayft-{role}"
        ]
        log = self._kept.enter_context((folder / "log").open("ab"))
        process = subprocess.Popen(
            [word.replace("/etc/rayft", str(folder)) for word in command], env=given | self.values | changed,
            stdout=log, stderr=log, stdin=subprocess.DEVNULL,
        )  # fmt: skip
        self._kept.callback(process.wait)
        self._kept.callback(process.kill)
        self.processes[pod] = process

    def answers(self, pod: str, path: str) -> bool:
        try:
            return bool(urlopen(f"http://127.0.0.1:{self.port + self.place(pod) + 6}/{path}", timeout=15).status == 200)
        except URLError:
            assert self.processes[pod].poll() is None, (self.directory / pod / "log").read_text()
            return False

    def ready(self, *pods: str) -> None:
        for pod in pods:
            until(lambda pod=pod: self.answers(pod, "ready"))

    def stop(self, pod: str) -> int:
        self.processes[pod].send_signal(signal.SIGTERM)
        return self.processes[pod].wait(TOO_LONG_S)


@pytest.fixture
def pods(tmp_path: Path) -> Iterator[Pods]:
    with ExitStack() as kept:
        yield Pods(tmp_path, kept)


@pytest.mark.slow
def test_the_command_of_the_pods_starts_a_cluster_and_a_controller_with_a_new_disk_joins_it(pods: Pods) -> None:
    names = [f"rayft-{role}-{number}" for role in ROLES for number in range(3)]
    for pod in names:
        pods.start(pod)
    pods.ready(*names)
    addresses = [("127.0.0.1", pods.port + number) for number in range(3)]
    assert sorted(probe.quorum(addresses).ends) == [1001, 1002, 1003]
    begun = time.monotonic()
    assert pods.stop("rayft-broker-1") == 0 and time.monotonic() - begun < TOO_LONG_S
    pods.start("rayft-broker-1")  # its disk is formatted already
    pods.ready("rayft-broker-1")
    assert pods.stop("rayft-controller-2") == 0
    shutil.rmtree(pods.directory / "rayft-controller-2" / "data")
    pods.start("rayft-controller-2", NEW_CLUSTER="no")
    pods.ready("rayft-controller-2")
    until(lambda: voters(addresses) == [1001, 1002, 1003])


def voters(addresses: list[tuple[str, int]]) -> list[int]:
    with suppress(probe.NoAnswer):
        return sorted(probe.quorum(addresses).ends)
    return []


def test_values_that_nobody_has_written_are_refused_in_a_sentence(pods: Pods) -> None:
    pods.start("rayft-controller-0", CLUSTER_ID=environment()["CLUSTER_ID"])
    assert pods.processes["rayft-controller-0"].wait(TOO_LONG_S) not in (0, None)
    log = (pods.directory / "rayft-controller-0" / "log").read_text()
    assert "write-rayft-random-id" in log and "Traceback" not in log
