"""Two runs beside each other: which is better, how sure that is, and where they differ most."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fewcap.core.config.score import ScoreConfig
from fewcap.core.errors import FewcapError
from fewcap.evaluation.confidence import Difference, differences
from fewcap.evaluation.measure import NAMES
from fewcap.evaluation.stage import ITEMS, read_measurement

if TYPE_CHECKING:
    from rich.console import Group


@dataclass(frozen=True)
class ClipDifference:
    """A clip that the runs describe differently."""

    id: str
    difference: float  # of CIDEr-D × 100, second minus first
    first: str
    second: str
    reference: str


@dataclass(frozen=True)
class Comparison:
    """Second run minus first, on the clips that both have."""

    first: str
    second: str
    items: int
    scores: dict[str, tuple[float, float]]  # metric -> first, second
    differences: dict[str, Difference]
    same_captions: int
    clips: list[ClipDifference]  # by how much they differ, largest first
    warnings: list[str]

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    def __rich__(self) -> Group:
        from rich.console import Group
        from rich.table import Table
        from rich.text import Text

        table = Table(box=None, pad_edge=False)
        for column in ("metric", "first", "second", "difference", "interval", "p"):
            table.add_column(column, justify="left" if column == "metric" else "right")
        for name, found in self.differences.items():
            first, second = self.scores[name]
            sure = f"{found.low:+.1f} to {found.high:+.1f}"
            # A p-value can not be smaller than the number of samples allows.
            p_value = f"{found.p_value:.3f}" if found.p_value >= 0.001 else "<0.001"
            table.add_row(NAMES[name], f"{first:.2f}", f"{second:.2f}", f"{found.difference:+.2f}", sure, p_value)
        lines: list[Any] = [Text(f"first: {self.first}\nsecond: {self.second}")]
        lines += [Text(f"{self.items} clips, {self.same_captions} with the same caption"), table]
        if self.clips:
            lines.append(Text("\nwhere they differ most (CIDEr-D):"))
        for clip in self.clips:
            text = f"{clip.difference:+8.1f}  {clip.id}\n          first      {clip.first}\n"
            text += f"          second     {clip.second}\n          reference  {clip.reference}"
            lines.append(Text(text))
        lines += [Text(f"warning: {warning}") for warning in self.warnings]
        return Group(*lines)


def compare(first: Path, second: Path, config: ScoreConfig, *, clips: int = 10) -> Comparison:
    """Compares two scored runs: project folders, or scores folders."""
    one, one_rows = read_measurement(_scores_folder(first))
    two, two_rows = read_measurement(_scores_folder(second))
    in_second = set(two.ids)
    shared = [identifier for identifier in one.ids if identifier in in_second]
    if not shared:
        raise FewcapError(f"{first} and {second} have no clip in common; they were scored on different data.")
    warnings = []
    if len(shared) < max(len(one.ids), len(two.ids)):
        warnings.append(
            f"{len(one.ids)} and {len(two.ids)} clips were scored, {len(shared)} are shared and compared; "
            "CIDEr-D weighs words by the whole set that was scored, so it is not quite the same measure in both."
        )
    by_first, by_second = ({row["id"]: row for row in rows} for rows in (one_rows, two_rows))
    changed = [key for key in shared if by_first[key]["references"] != by_second[key]["references"]]
    if changed:
        raise FewcapError(
            f"{first} and {second} were scored against different references ({len(changed)} clips, first: "
            f"'{changed[0]}'); score both against the same data."
        )
    if one.has_meteor != two.has_meteor:
        warnings.append("METEOR was computed for one of the runs only and is left out.")
    a, b = one.only(shared), two.only(shared)
    found = differences(a, b, samples=config.bootstrap, confidence=config.confidence, seed=config.bootstrap_seed)
    of_a, of_b = a.corpus(), b.corpus()
    rows = [_clip(by_first[identifier], by_second[identifier]) for identifier in shared]
    different = [row for row in rows if row.first != row.second]
    different.sort(key=lambda row: (-abs(row.difference), row.id))
    return Comparison(
        first=str(first),
        second=str(second),
        items=len(shared),
        scores={name: (of_a[name], of_b[name]) for name in found},
        differences=found,
        same_captions=len(rows) - len(different),
        clips=different[:clips],
        warnings=warnings,
    )


def _scores_folder(run: Path) -> Path:
    for place in (run, run / "scores"):
        if (place / ITEMS).exists():
            return place
    if not run.exists():
        raise FewcapError(f"{run}: there is no such run.")
    raise FewcapError(f"{run}: this run has no scores yet; run: fewcap run {run}")


def _clip(first: dict[str, Any], second: dict[str, Any]) -> ClipDifference:
    difference = round(second["cider_d"] - first["cider_d"], 4)
    reference = first["references"][0]
    return ClipDifference(first["id"], difference, first["caption"], second["caption"], reference)
