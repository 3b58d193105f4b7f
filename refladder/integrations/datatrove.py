"""A filter block for datatrove. Needs `pip install datatrove orjson`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from datatrove.pipeline.filters.base_filter import BaseFilter

from refladder.files.ladder_sets import choose_dimensions
from refladder.integrations.single_scores import CONTEXT_FIELDS, single_scores
from refladder.jobs.score import set_named
from refladder.jobs.text_scorer import Scorer

if TYPE_CHECKING:
    from datatrove.data import Document, DocumentsPipeline
    from datatrove.pipeline.writers.disk_base import DiskWriter


class LadderFilter(BaseFilter):  # type: ignore[misc]  # datatrove has no types
    """Keep documents with a score of at least `minimum`.

    The metadata of a document needs `context_id` (an id of the ladder set) or `context`, and with a shared set neither;
    `background` is optional. The filter adds `refladder_score`, `refladder_signature` and, where there is one,
    `refladder_note` to the metadata.
    Statistics: `forwarded` (kept), `dropped`, and of these `dropped_below_minimum` and `dropped_unscored`. A document
    that cannot be scored is dropped as unscored; the exclusion writer stores it with `filter_reason` "unscored".

    Args:
        ladders: a shipped name or a folder; see `refladder.Scorer`.
        judge: name of a backend. Each task of the executor opens it.
        minimum: least score: of the dimension, or between 0 and 1 of several dimensions; of ratings on a ladder set,
            the least grade.
        exclusion_writer: datatrove's writer of dropped documents.
        batch_size: documents judged at a time.
        settings: other arguments of `refladder.Scorer`, such as `dimensions=["coherence"]`.

    Raises:
        RefladderError: the ladder set or a dimension does not exist; when a task starts, see `refladder.Scorer`.
    """

    name = "🪜 refladder"

    def __init__(
        self,
        *,
        ladders: str,
        minimum: float,
        judge: str = "builtin",
        exclusion_writer: DiskWriter | None = None,
        batch_size: int = 64,
        **settings: Any,
    ) -> None:
        super().__init__(exclusion_writer, batch_size)
        choose_dimensions(set_named(ladders).dimensions, settings.get("dimensions", ()))
        self.minimum = minimum
        self.settings = {"ladders": ladders, "judge": judge, **settings}
        # `run` opens it, in the process of the task.
        self.scorer: Scorer | None = None

    def run(self, data: DocumentsPipeline, rank: int = 0, world_size: int = 1) -> DocumentsPipeline:
        """Open the judge and filter."""
        with Scorer(**self.settings) as self.scorer:
            yield from super().run(data, rank, world_size)

    def filter(self, doc: Document) -> bool | tuple[bool, str]:
        """Return whether to keep a document; else the reason."""
        return self.filter_batch([doc])[0]

    def filter_batch(self, batch: list[Document]) -> list[bool | tuple[bool, str]]:
        """Return whether to keep each document; else the reason."""
        assert self.scorer is not None  # noqa: S101  for mypy: `run` opens it
        groups: dict[tuple[str, ...], list[Document]] = {}
        for document in batch:
            groups.setdefault(
                tuple(name for name in CONTEXT_FIELDS if name in document.metadata), []
            ).append(document)
        results: dict[int, bool | tuple[bool, str]] = {}
        for names, documents in groups.items():
            fields = {name: [document.metadata[name] for document in documents] for name in names}
            texts = [document.text for document in documents]
            for document, result in zip(
                documents, single_scores(self.scorer, texts, fields), strict=True
            ):
                document.metadata["refladder_score"] = result.value
                document.metadata["refladder_signature"] = self.scorer.signature
                if result.reason is not None:
                    document.metadata["refladder_note"] = result.reason
                passed = result.value is not None and result.value >= self.minimum
                reason = "unscored" if result.value is None else "below_minimum"
                results[id(document)] = passed or (False, reason)
        return [results[id(document)] for document in batch]
