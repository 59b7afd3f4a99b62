"""The metrics of a node as a test reads them: a number for each line of the page, by its name with labels."""

from collections.abc import Iterable

from actors.node.metrics.family import Sample, Summary


def numbers(samples: Iterable[object]) -> dict[str, float]:
    """Every number by the name that Prometheus has for it. Columns of partitions are left out."""
    found: dict[str, float] = {}
    for sample in samples:
        if not isinstance(sample, Sample):
            continue
        name, brace, labels = sample.key.partition("{")
        if not isinstance(sample.value, Summary):
            found[sample.key] = sample.value
            continue
        found[f"{name}_count{brace}{labels}"] = sample.value.times
        for share, value in sample.value.quantiles:
            pairs = ",".join(filter(None, (labels.rstrip("}"), f'quantile="{share}"')))
            found[f"{name}{{{pairs}}}"] = value
    return found
