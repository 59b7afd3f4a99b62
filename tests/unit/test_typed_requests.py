"""Requests have types, so that a misspelt field fails `make lint`. Each one that has none is named here, with the reason."""

import ast
from pathlib import Path

ROOT = Path(__file__).parents[2] / "actors"
MOST = 20
BY_FIELD = "reads fields by their names, which requests of several kinds have"
OF_KIND = "is of another type in each kind of group"
UNTYPED = {
    "node/quorum/codec/partition.py foreign": BY_FIELD,
    "node/api/security/denied.py _share_state.reply": BY_FIELD,
    "node/api/security/speakers.py of_partitions.speakers": BY_FIELD,
    "node/api/share/share_state.py _portions": BY_FIELD,
    "node/api/share/share_state.py answered": BY_FIELD,
    "node/runtime/slices.py in_slices.begin": "is given on: the runtime knows no messages",
    "node/api/dispatch.py _ChargedRun.__init__": "is asked for acks where the API is Produce",
    "node/api/dispatch.py RequestRun.__init__": "is given back once it is answered: None from then on",
    "node/roles/controller/role.py ControllerRole._run": "is no message where the controller has asked itself",
    "controller/principals/acls.py RulesGone.is_long": "is what `Flat` says of requests of every kind",
    "controller/principals/acls.py RulesGone.portions": "is what `Flat` says of requests of every kind",
    "broker/groups/member_groups.py MemberGroups._beat": OF_KIND,
    "broker/groups/member_groups.py MemberGroups._check": OF_KIND,
    "broker/groups/member_groups.py MemberGroups._leave": OF_KIND,
    "broker/groups/member_groups.py MemberGroups._once_written": OF_KIND,
    "broker/groups/member_groups.py MemberGroups._reply": OF_KIND,
    "broker/groups/member_groups.py MemberGroups.heartbeat": OF_KIND,
}


def untyped(tree: ast.AST, within: tuple[str, ...] = ()) -> list[str]:
    """The functions below a node that take a `request: Any`, by their names with those of what they are in."""
    found = []
    for node in ast.iter_child_nodes(tree):
        inner = within
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            inner = (*within, node.name)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            args = node.args
            for one in (*args.posonlyargs, *args.args, *args.kwonlyargs):
                if one.arg == "request" and isinstance(one.annotation, ast.Name) and one.annotation.id == "Any":
                    found.append(".".join(inner))
        found += untyped(node, inner)
    return found


def test_few_requests_have_no_type_and_each_for_a_reason() -> None:
    found = {
        f"{path.relative_to(ROOT)} {name}"
        for path in sorted(ROOT.rglob("*.py"))
        if "schemas" not in path.parts
        for name in untyped(ast.parse(path.read_text()))
    }
    assert found == set(UNTYPED), "give it the type of its schema, or say here why it has none"
    assert len(found) <= MOST and all(UNTYPED.values())
