"""Scores of captions against references, with intervals and with warnings where a number means nothing."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fewcap.core.config.score import ScoreConfig
from fewcap.core.errors import FewcapError
from fewcap.evaluation.confidence import bootstrap_intervals
from fewcap.evaluation.diversity import diversity, keyword_scores
from fewcap.evaluation.files import read_predictions, read_references
from fewcap.evaluation.measure import NAMES, Measurement, PreparedReferences, measure
from fewcap.evaluation.meteor import Meteor, MeteorError
from fewcap.evaluation.ptb import tokenise

if TYPE_CHECKING:
    from rich.console import Group

_COPIED_SHARE = 0.75


@dataclass(frozen=True)
class Scores:
    """Metrics × 100 of a run, how sure they are, and what to keep in mind when reading them."""

    items: int
    metrics: dict[str, float]
    intervals: dict[str, tuple[float, float]]
    diversity: dict[str, float | int | str]
    keywords: dict[str, float]
    warnings: list[str]
    measurement: Measurement = field(repr=False)

    def to_json(self) -> dict[str, Any]:
        """Everything but the measurement of single items."""
        facts = {name: value for name, value in asdict(self).items() if name != "measurement"}
        facts["intervals"] = {name: list(interval) for name, interval in self.intervals.items()}
        return facts

    def __rich__(self) -> Group:
        from rich.console import Group
        from rich.table import Table
        from rich.text import Text

        table = Table(box=None, pad_edge=False)
        table.add_column("metric")
        table.add_column("score", justify="right")
        table.add_column("interval" if self.intervals else "", justify="right")
        for name, label in NAMES.items():
            if name in self.metrics:
                low, high = self.intervals.get(name, (None, None))
                table.add_row(label, f"{self.metrics[name]:.2f}", f"{low:.1f} - {high:.1f}" if low is not None else "")
        for name, value in self.keywords.items():
            table.add_row(f"keyword {name}", f"{value:.2f}", "")
        for name in ("distinct_1", "distinct_2", "different_captions", "new_sentences"):
            if name in self.diversity:
                table.add_row(name.replace("_", " "), f"{float(self.diversity[name]):.3f}", "")
        if "vocabulary" in self.diversity:
            table.add_row("vocabulary", str(self.diversity["vocabulary"]), "")
        notes = [Text(f"warning: {warning}") for warning in self.warnings]
        return Group(Text(f"{self.items} captions"), table, *notes)


def score(predictions: Path, references: Path, config: ScoreConfig) -> Scores:
    """Scores a file of captions against a file of references. Needs nothing else of fewcap."""
    predictions, references = Path(predictions), Path(references)
    captions, groups = read_predictions(predictions), read_references(references)
    if not captions.keys() & groups.keys():
        raise FewcapError(
            f"{predictions} and {references} have no id in common: the first are '{next(iter(captions))}' "
            f"and '{next(iter(groups))}'."
        )
    with open_meteor(config) as (meteor, notes):
        return score_captions(captions, groups, config, meteor=meteor, notes=notes)


@contextmanager
def open_meteor(config: ScoreConfig) -> Iterator[tuple[Meteor | None, list[str]]]:
    """METEOR's process for a block, or None and the reason."""
    if config.meteor == "off":
        yield None, []
        return
    try:
        meteor = Meteor()
    except MeteorError as error:
        if config.meteor == "on":
            raise
        yield None, [f"METEOR was not computed: {error}"]
        return
    with meteor:
        yield meteor, []


def score_captions(
    captions: Mapping[str, str],
    references: Mapping[str, Sequence[str]],
    config: ScoreConfig,
    *,
    meteor: Meteor | None,
    notes: Sequence[str] = (),
    training: Collection[str] = (),
) -> Scores:
    """Scores captions by id; ids on one side only are dealt with as the configuration says."""
    matched, warnings = _match(captions, references, config)
    groups = {identifier: references[identifier] for identifier in matched}
    warnings = [*notes, *warnings, *_doubts(matched, groups)]
    prepared = PreparedReferences(groups)
    try:
        run = measure(matched, prepared, meteor)
    except MeteorError as error:
        if config.meteor == "on":
            raise
        warnings.append(f"METEOR was not computed: {error}")
        run = measure(matched, prepared, None)
    intervals = bootstrap_intervals(
        run, samples=config.bootstrap, confidence=config.confidence, seed=config.bootstrap_seed
    )
    return Scores(
        items=len(matched),
        metrics=run.corpus(),
        intervals=intervals,
        diversity=diversity(matched.values(), training),
        keywords=keyword_scores(matched, groups) if config.keywords else {},
        warnings=warnings,
        measurement=run,
    )


def _match(
    captions: Mapping[str, str], references: Mapping[str, Sequence[str]], config: ScoreConfig
) -> tuple[dict[str, str], list[str]]:
    warnings = []
    unknown = [identifier for identifier in captions if identifier not in references]
    if unknown:
        warnings.append(f"{len(unknown)} captions have no reference and do not count (first: '{unknown[0]}').")
    without = [identifier for identifier in references if identifier not in captions]
    if without:
        first = f"(first: '{without[0]}')"
        if config.missing == "error":
            raise FewcapError(f"{len(without)} of {len(references)} videos with references have no caption {first}.")
        if config.missing == "empty":
            warnings.append(f"{len(without)} videos without a caption {first} count as empty captions.")
        else:
            warnings.append(
                f"{len(without)} of {len(references)} videos with references have no caption {first} and are left out: "
                "the scores can not be compared with those of a full set."
            )
    found = {
        identifier: captions.get(identifier, "")
        for identifier in references
        if identifier in captions or config.missing == "empty"
    }
    if not found:
        raise FewcapError("No id of the captions is among the references; nothing can be scored.")
    return found, warnings


def _doubts(captions: Mapping[str, str], references: Mapping[str, Sequence[str]]) -> list[str]:
    """Reasons to distrust a number although it can be computed."""
    doubts = []
    if len(captions) == 1:
        doubts.append(
            "CIDEr-D of one item is 0 whatever the caption: it weighs words by how few items have them; "
            "score at least some dozens."
        )
    empty = sum(not tokenise(caption) for caption in captions.values())
    if empty:
        doubts.append(f"{empty} captions are empty.")
    copied = sum(
        tokenise(caption) in {tokenise(reference) for reference in references[identifier]}
        for identifier, caption in captions.items()
        if caption
    )
    if len(captions) >= 5 and copied >= _COPIED_SHARE * len(captions):
        doubts.append(
            f"{copied} of {len(captions)} captions are word for word one of their own references: if the captions were "
            "taken from the references, take them out of the references, or the scores mean nothing."
        )
    return doubts
