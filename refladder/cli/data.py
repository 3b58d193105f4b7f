"""The options that name the data of a command, a benchmark or the user's own table."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from refladder.errors import UsageError
from refladder.loaders.data import TABLE, Data, one_alone, one_each

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

_WORDS: dict[str, object] = {"true": True, "false": False}


@dataclass(frozen=True, slots=True, kw_only=True)
class DataOptions:
    """The options that name the data; `benchmark` and `source` are tuples where there may be several."""

    benchmark: str | tuple[str, ...] | None
    source: str | tuple[str, ...] | None
    task_file: Path | None
    columns: Mapping[str, str]
    options: Mapping[str, str]
    dimensions: tuple[str, ...]

    @property
    def names(self) -> tuple[str, ...]:
        """Return the benchmarks that are named."""
        return (self.benchmark,) if isinstance(self.benchmark, str) else self.benchmark or ()

    def each(self) -> list[Data]:
        """Return the data of each benchmark; see `data`."""
        one_alone(
            len(self.names), task_file=self.task_file, column=self.columns, option=self.options
        )
        sources = one_each(self.source, len(self.names), "source", name="source")
        each = []
        for name, path in zip(self.names, sources, strict=True):
            each.append(replace(self, benchmark=name, source=path).data())
        return each

    def data(self) -> Data:
        """Return the data of one benchmark, after checks of its options."""
        (name,) = self.names
        options = {key: _WORDS.get(value, value) for key, value in self.options.items()}
        if "systems" in self.options:
            options["systems"] = tuple(self.options["systems"].split(","))
        data = Data(
            name,
            task_file=self.task_file,
            columns=self.columns,
            dimensions=self.dimensions,
            source=None if isinstance(self.source, tuple) else self.source,
            options=options,
        )
        if data.path is None and name != TABLE:
            if self.task_file is not None or self.columns:
                raise UsageError(
                    f"--task-file and --column are for a table of your own, not {name!r}"
                )
            return data
        for key, value in self.options.items():
            raise UsageError(
                f"a table of your own has no options, and --option {key}={value} was given; leave it out"
            )
        if data.path is None:
            raise UsageError(
                "benchmark 'table' is your own data; give the path of your table instead of 'table'"
            )
        if self.task_file is None:
            raise UsageError(
                f"{data.path}: a table of your own needs its task and dimensions; add --task-file TASK.toml"
            )
        return data
