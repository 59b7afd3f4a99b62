"""Controllers that come and go: what becomes of the files, and what is refused before anything is changed."""

from pathlib import Path

import pytest

from actors.command import cli
from actors.host.cluster import controllers, local_controllers, plan_changes
from actors.host.cluster import plan as plans
from actors.host.cluster.supervisor import Supervisor
from actors.host.cluster_error import ClusterError
from actors.host.work import locks
from actors.settings.keys import ConfigError

NEW = ("127.0.0.1", 19999)


def test_a_new_controller_is_set_up_like_the_others_and_every_node_learns_of_it(tmp_path: Path) -> None:
    plan = plans.create(tmp_path, 1, 1, common={"log.retention.hours": "5", "rayft.metrics.listen": "127.0.0.1:7000"})
    found = plan_changes.write(plan, plan_changes.with_controller(plan, 1002, NEW))
    assert [member.name for member in found.members] == ["controller-1001", "controller-1002", "broker-1"]
    added = found.member(1002)
    assert added.config.roles == {"controller"} and added.address("controller") == NEW
    assert added.config.metadata_log_dir == str(tmp_path / "controller-1002")
    assert added.written["log.retention.hours"] == "5"
    assert added.written["rayft.metrics.listen"] == "127.0.0.1:7002", "no other node has this port"
    host, port = plan.member(1001).address("controller")
    for member in found.members:
        assert member.written["controller.connect"] == f"1001@{host}:{port},1002@127.0.0.1:19999"


def test_a_new_controller_is_nothing_of_a_broker_with_which_the_others_share_their_processes(tmp_path: Path) -> None:
    plan = plans.create(tmp_path, 1, 1, common={}, combined=True, secure=True)
    controllers.secure_cluster.certify(tmp_path, (1002,), NEW[0])
    found = plan_changes.write(plan, plan_changes.with_controller(plan, 1002, NEW))
    added = found.member(1002)
    assert added.ids == (1002,) and [one.name for one in added.config.listeners] == ["CONTROLLER"]
    assert added.written["ssl.keystore.location"].endswith("rayft-node-1002.pem")
    for member in found.members:
        assert member.written["super.users"] == "User:rayft-node-1-1001;User:admin;User:rayft-node-1002"


def test_what_goes_leaves_no_trace_in_the_files_of_the_others(tmp_path: Path) -> None:
    plan = plans.create(tmp_path, 3, 1, common={}, secure=True)
    found = plan_changes.write(plan, plan_changes.without_controller(plan, 1002))
    assert [member.name for member in found.members] == ["controller-1001", "controller-1003", "broker-1"]
    for member in found.members:
        assert not any("1002" in value for value in member.written.values()), member.written


def test_blanks_in_super_users_hide_no_controller_that_goes(tmp_path: Path) -> None:
    """The authorizer trims the names, and so does what adds and removes them."""
    plan = plans.create(tmp_path, 3, 1, common={}, secure=True)
    for member in plan.members:
        path = tmp_path / f"{member.name}.properties"
        path.write_text(path.read_text().replace(";User:", " ; User:"))
    plan = plans.load(tmp_path) or plan
    again = plan_changes.with_controller(plan, 1002, ("127.0.0.1", 19999))
    assert all(own["super.users"].count("rayft-node-1002") == 1 for own in again.values())
    found = plan_changes.write(plan, plan_changes.without_controller(plan, 1002))
    for member in found.members:
        assert "rayft-node-1002" not in member.written["super.users"], member.written


def test_a_controller_that_moves_is_named_at_its_new_place(tmp_path: Path) -> None:
    plan = plans.create(tmp_path, 2, 0, common={})
    found = plan_changes.write(plan, plan_changes.with_controller(plan, 1002, NEW))
    assert found.member(1002).address("controller") == NEW
    assert found.member(1001).written["controller.connect"].endswith("1002@127.0.0.1:19999")


@pytest.mark.parametrize(
    ("id", "why"),
    [
        (1, "--node 1 is a broker, and --remove is for controllers"),
        (1001, "--node 1001 shares its process with broker 1"),
        (7, r"--node 7 is not there to be removed: no node has the id 7; there are \[1, 1001, 1002\]"),
    ],
)
def test_who_cannot_be_removed_is_told_in_one_sentence(id: int, why: str, tmp_path: Path) -> None:
    plan = plans.create(tmp_path, 2, 1, common={}, combined=True)
    assert controllers.leaving(plan, 1002).name == "controller-1002"
    with pytest.raises(ConfigError, match=why):
        controllers.leaving(plan, id)


def test_a_cluster_that_does_not_run_is_not_changed(tmp_path: Path) -> None:
    plans.create(tmp_path, 1, 0, common={})
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    with pytest.raises(ClusterError, match=f"start it with rayft up --dir {tmp_path}"):
        local_controllers.add(tmp_path)
    assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == before
    with pytest.raises(ClusterError, match="name another with --dir"):
        local_controllers.add(tmp_path / "nothing")


def test_a_supervisor_of_an_earlier_release_is_not_ended_by_a_signal_that_it_does_not_know(tmp_path: Path) -> None:
    """This process holds the directory, and has no handler for SIGHUP: it would end."""
    plans.create(tmp_path, 1, 0, common={})
    lock = locks.Lock(str(tmp_path))
    try:
        with pytest.raises(ClusterError, match="was started by an earlier release"):
            local_controllers.add(tmp_path)
    finally:
        lock.close()


def test_one_command_at_a_time_changes_a_cluster(tmp_path: Path) -> None:
    plans.create(tmp_path, 1, 0, common={})
    with locks.alone(tmp_path), pytest.raises(ClusterError, match="another command changes the cluster"):
        local_controllers.add(tmp_path)


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (["up", "--add-controller", "--brokers", "3"], "leave --brokers out"),
        (["up", "--add-controller", "1002", "--insecure"], "leave --insecure out"),
        (["up", "--add-controller", "--set", "a=b"], "leave --set out"),
        (["down", "--remove"], "write rayft down --node ID --remove"),
        (["down", "--node", "1002"], "write rayft down --node ID --remove"),
    ],
)
def test_options_that_do_not_go_together(
    arguments: list[str], why: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main([*arguments, "--dir", str(tmp_path)]) == 1
    assert why in capsys.readouterr().err


def test_files_that_cannot_be_read_leave_the_nodes_as_they_are(tmp_path: Path) -> None:
    supervisor = Supervisor(plans.create(tmp_path, 2, 0, common={}), detached=True)
    (tmp_path / "controller-1001.properties").write_text("process.roles=nonsense\n")
    supervisor._read_plan()
    assert [child.member.name for child in supervisor.children] == ["controller-1001", "controller-1002"]
    assert not any(child.gone for child in supervisor.children)
