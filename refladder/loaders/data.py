"""The data of a run: a benchmark by name or as a record, or the user's own table."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from refladder import registry
from refladder.errors import DataError, UnknownNameError, UsageError, option, plural
from refladder.files.frames import Frame
from refladder.files.hub import PREFIX
from refladder.files.ladder_sets import choose_dimensions, rated_names
from refladder.files.streams import is_url
from refladder.files.tables import form_by_name, read_once
from refladder.loaders import BENCHMARKS, load_benchmark
from refladder.loaders.task_files import FIELDS, read_task
from refladder.loaders.user_table import load_contexts, read_user_table
from refladder.records import DOCUMENT, Benchmark, Dimension, names_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from refladder.files.ladder_sets import LadderSet
    from refladder.records import Context

TABLE = "table"
_TASK = "give task_file=PATH, or task=NAME with dimensions=[refladder.Dimension(...)]"


def benchmark_or_path(name: str, source: str | Path | None) -> tuple[str, str | Path | None]:
    """Return the name of a benchmark and its source; the path of a table is the benchmark `table` with that source."""
    names = [*registry.names("benchmark", BENCHMARKS), *rated_names()]
    if name in names:
        return name, source
    is_path = Path(name).is_file() or read_once(name)
    if not (is_path or is_url(name) or name.startswith(PREFIX)):
        if form_by_name(name):
            raise DataError(f"{name}: no such file")
        raise UnknownNameError("benchmark or file", name, names)
    if source is not None:
        raise UsageError(
            f"{name} is a table, and {option('source')} {source} is another; give one of them"
        )
    return TABLE, name


def one_alone(count: int, **given: object) -> None:
    """Check that nothing is `given` (by its name as an option) that is about one benchmark, where several are named."""
    for name, value in given.items():
        if count > 1 and value:
            raise UsageError(
                f"{option(name)} is about one benchmark, and {count} are named; evaluate that one in a run of its own"
            )


def one_each(
    given: Any, count: int, what: str, *, name: str, one_for_all: bool = False
) -> list[Any]:
    """Return what is given for each of `count` benchmarks, in the same order, or for all; None if nothing is given."""
    values = list(given) if isinstance(given, list | tuple) else [given] * (given is not None)
    number = len(values)
    if number not in {0, count} and not (one_for_all and number == 1):
        each = " for each, in the same order"
        if one_for_all:
            each = ", or one for each in the same order"
        if count == 1:
            each = ""
        raise UsageError(
            f"{plural(number, what)} for {plural(count, 'benchmark')}; give {option(name)} once{each}"
        )
    return values * (count // number) if values else [None] * count


def data_of(given: Mapping[str, Any], named: Sequence[Any]) -> list[Data]:
    """Return the data of a call: each benchmark or table that is `named`, with the arguments about it."""
    about = {name: given[name] for name in ("task", "task_file", "columns", "options")}
    one_alone(len(named), **about)
    sources = one_each(given["source"], len(named), "source", name="source")
    each = []
    for data, source in zip(named, sources, strict=True):
        each.append(Data(data, dimensions=tuple(given["dimensions"]), source=source, **about))
    return each


@dataclass(frozen=True, slots=True)
class Data:
    """A benchmark or a table, as `build` and `evaluate` take it."""

    data: Any
    task: str | None = None
    task_file: str | Path | None = None
    dimensions: Sequence[str | Dimension] = ()
    columns: Mapping[str, str] | None = None
    source: str | Path | None = None
    options: Mapping[str, object] | None = None
    path: str | Path | None = field(default=None, init=False)

    def __post_init__(self) -> None:
        """Find the path of a table, whether it was named as the data or as the source of `table`."""
        if isinstance(self.data, str | Path):
            name, source = benchmark_or_path(str(self.data), self.source)
            if name == TABLE and source is not None:
                object.__setattr__(self, "path", source)
                object.__setattr__(self, "source", None)

    def contexts(self, *, shared: bool = False) -> tuple[Sequence[Context], Sequence[Dimension]]:
        """Return the contexts (seeds of `shared` ladders) and dimensions to build ladders for."""
        if self.is_table():
            task, described = self._described(None)
            if task == DOCUMENT and not shared:
                raise UsageError(
                    f"texts of task {DOCUMENT!r} have no context, so all share their ladders; give "
                    f"{option('shared')} K, the number of anchors"
                )
            contexts = load_contexts(self._rows(), task=task, columns=self.columns)
            return contexts, choose_dimensions(described, self._names())
        if shared:
            raise UsageError(
                f"{option('shared')} draws anchors from a table of your own, and {self.data!s:.60} is a benchmark; "
                "give a table, or leave it out"
            )
        benchmark, chosen = self.rated(None)
        return benchmark.contexts, chosen

    def rated(self, ladders: LadderSet | None) -> tuple[Benchmark, Sequence[Dimension]]:
        """Return the benchmark, and the dimensions to evaluate; a table without a task has the dimensions of `ladders`."""
        if self.is_table(ladders):
            task, described = self._described(ladders)
            names = self._names()
            benchmark = read_user_table(
                self._rows(), task, described, columns=self.columns, dimensions=names
            )
            return benchmark, choose_dimensions(benchmark.dimensions, names)
        if self.task is not None or self.task_file is not None or self.columns:
            raise UsageError(
                "task, task_file and columns are for a table, not a benchmark; leave them out"
            )
        benchmark = self.data
        if isinstance(benchmark, Benchmark):
            if self.source is not None or self.options:
                raise UsageError("source and options are for a benchmark by name; leave them out")
        else:
            benchmark = load_benchmark(str(self.data), self.source, **(self.options or {}))
        return benchmark, choose_dimensions(benchmark.dimensions, self._names())

    def is_table(self, ladders: LadderSet | None = None) -> bool:
        """Return whether the data are a table; it must have a task, or `ladders` that name one."""
        if self.path is None and isinstance(self.data, Benchmark | str | Path):
            return False
        if self.task is None and self.task_file is None and ladders is None:
            raise UsageError(f"a table needs its task and dimensions; {_TASK}")
        return True

    def _described(self, ladders: LadderSet | None) -> tuple[str, tuple[Dimension, ...]]:
        """Return the task, and all its dimensions."""
        objects = tuple(each for each in self.dimensions if isinstance(each, Dimension))
        if self.task is not None and self.task_file is not None:
            raise UsageError("task and task_file both name the task; give one of them")
        if self.task_file is not None:
            return read_task(Path(self.task_file))
        if self.task is None and ladders is not None:
            return ladders.task, ladders.dimensions
        if not objects or len(objects) < len(self.dimensions):
            raise UsageError(
                "task=NAME needs dimensions=[refladder.Dimension(...)], which describe what is judged"
            )
        names = names_of(objects)
        for dimension in objects:
            if (
                names.count(dimension.name) > 1
                or dimension.name in FIELDS
                or not dimension.low < dimension.high
            ):
                raise UsageError(
                    f"dimension {dimension.name!r} has the name of another dimension or field, or its low is not below "
                    "its high; change it"
                )
        return self.task or "", objects

    def _names(self) -> list[str]:
        return [each if isinstance(each, str) else each.name for each in self.dimensions]

    def _rows(self) -> str:
        if self.source is not None or self.options:
            raise UsageError(
                "source and options are for a benchmark by name, not a table; leave them out"
            )
        return Frame(self.data).source(as_json=False) if self.path is None else str(self.path)
