"""Reads an exposition with the parser of the Prometheus client library."""

from dataclasses import dataclass, field

from prometheus_client.parser import text_string_to_metric_families

Labels = frozenset[tuple[str, str]]


@dataclass
class Exported:
    """`types`: of each name as it is written. `values`: of each sample, by name and labels."""

    types: dict[str, str] = field(default_factory=dict)
    labels: dict[str, set[str]] = field(default_factory=dict)
    values: dict[tuple[str, Labels], float] = field(default_factory=dict)

    @classmethod
    def of(cls, text: bytes | str) -> "Exported":
        exported = cls()
        for family in text_string_to_metric_families(text.decode() if isinstance(text, bytes) else text):
            name = f"{family.name}_total" if family.type == "counter" else family.name
            assert name not in exported.types, f"{name} is exported twice"
            exported.types[name] = family.type
            own = {label for sample in family.samples for label in sample.labels}
            exported.labels[name] = own - {"le"}
            for sample in family.samples:
                key = (sample.name, frozenset(sample.labels.items()))
                assert key not in exported.values, f"{key} is exported twice"
                exported.values[key] = sample.value
        return exported

    def value(self, name: str, **labels: str) -> float:
        """Of one sample; KeyError when there is none."""
        return self.values[name, frozenset(labels.items())]

    def by_label(self, name: str) -> dict[tuple[str, ...], float]:
        """All samples of a name by their labels' values, in the order of the labels' names."""
        return {
            tuple(value for _, value in sorted(labels)): figure
            for (found, labels), figure in self.values.items()
            if found == name
        }
