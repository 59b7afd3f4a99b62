"""Ray Data's door without a cluster: what its read tasks would do."""

from pathlib import Path

import pytest

pytest.importorskip("ray.data", reason="Ray Data is not installed")

from actors.replay import ray as door
from actors.replay.read_options import read_options
from tests.unit.replay.written import append


@pytest.mark.parametrize("columns", ["value", "offset,value"])
@pytest.mark.parametrize(("wanted", "given"), [(("value",), ["value"]), ((), ["offset"])])
def test_what_a_pipeline_uses_is_built_and_to_count_rows_a_column_is(
    tmp_path: Path, columns: str, wanted: tuple[str, ...], given: list[str]
) -> None:
    append(tmp_path, "orders", 0, 0, 20)
    source = door.LogDatasource(read_options({"path": str(tmp_path), "columns": columns}))
    found = [
        (task.schema.names, table.column_names, table.num_rows)
        for task in source.apply_projection({name: name for name in wanted}).get_read_tasks(2)
        for table in task.read_fn()
    ]
    assert found == [(given, given, 20)]
