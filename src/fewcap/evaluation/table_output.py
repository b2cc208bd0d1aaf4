"""A reproduced table as Markdown, CSV, LaTeX and plots."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fewcap.core.store import readable_os_errors
from fewcap.evaluation.measure import NAMES
from fewcap.evaluation.recipes import METRICS, TableRecipe
from fewcap.evaluation.report.charts import Mark, Series, line_chart, scale_chart

if TYPE_CHECKING:
    from rich.table import Table

_SHORT = {"bleu4": "B@4", "meteor": "M", "rouge_l": "R", "cider_d": "C"}
_STYLE = """<style>
.chart{background:#fff}.grid{stroke:#ddd}.tick,.axis{fill:#444;font:12px sans-serif}
polyline{fill:none;stroke-width:2.2}.line-a{stroke:#0f766e}.line-b{stroke:#8c867d}.line-c{stroke:#dd8a14}
.line-d{stroke:#4a67c9}circle.line-a,.run{fill:#0f766e}circle.line-b,.frequent{fill:#8c867d}circle.line-c{fill:#dd8a14}
circle.line-d{fill:#4a67c9}polyline.dashed{stroke-dasharray:5 4}circle.dashed{fill:#fff}
.interval{stroke:#0f766e;stroke-width:5;opacity:.3}</style>"""


@dataclass(frozen=True)
class TableRow:
    """A row with what was published and what was measured."""

    name: str
    venue: str
    series: str
    x: float | None
    sentences: str
    pseudo: int
    published_features: str
    published: list[float | None]  # in the order of METRICS
    features: str  # of the measured numbers
    measured: list[tuple[float, float] | None]  # mean and standard deviation over seeds
    seeds: int
    wanted: int  # seeds asked for; 0: the row can not be measured

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @property
    def cells(self) -> list[str]:
        """As text: name, features, sentences, pseudo-labels, published and measured numbers, seeds."""
        published = [f"{value:.1f}" if value is not None else "-" for value in self.published]
        measured = [self._measured(value) for value in self.measured]
        seeds = f"{self.seeds}/{self.wanted}" if self.wanted else "-"
        name = f"{self.name} ({self.venue})" if self.venue else self.name
        used = self.features or "-"
        theirs = self.published_features if any(value is not None for value in self.published) else "-"
        return [name, self.sentences, str(self.pseudo), theirs, *published, used, *measured, seeds]

    def _measured(self, value: tuple[float, float] | None) -> str:
        if value is None:
            return "-"
        return f"{value[0]:.1f} ± {value[1]:.1f}" if self.seeds > 1 else f"{value[0]:.1f}"


def header() -> list[str]:
    published = [f"{_SHORT[name]} published" for name in METRICS]
    measured = [f"{_SHORT[name]} measured" for name in METRICS]
    return ["row", "GT", "Pse", "published features", *published, "features used", *measured, "seeds"]


def write_outputs(out: Path, recipe: TableRecipe, rows: Sequence[TableRow], data: str) -> list[Path]:
    """Writes every form of the table; returns the files."""
    stem = f"table{recipe.table:02d}"
    contents = {
        f"{stem}.md": as_markdown(recipe, rows, data),
        f"{stem}.csv": as_csv(rows),
        f"{stem}.tex": as_latex(recipe, rows, data),
    }
    for name in METRICS:
        if (picture := plot(recipe, rows, name)) is not None:
            contents[f"{stem}-{name}.svg"] = picture
    with readable_os_errors(out):
        out.mkdir(parents=True, exist_ok=True)
        for name, text in contents.items():
            (out / name).write_text(text, encoding="utf-8")
    return [out / name for name in contents]


def as_markdown(recipe: TableRecipe, rows: Sequence[TableRow], data: str) -> str:
    lines = [f"# Table {recipe.table}: {recipe.title}", "", _note(recipe, data), ""]
    columns = header()
    lines.append("| " + " | ".join(columns) + " |")
    lines.append("|" + "|".join("---" if place in (0, 3, 8) else "--:" for place in range(len(columns))) + "|")
    lines += ["| " + " | ".join(cell.replace("|", "\\|") for cell in row.cells) + " |" for row in rows]
    for name in METRICS:
        if plot(recipe, rows, name) is not None:
            lines += ["", f"![{NAMES[name]}](table{recipe.table:02d}-{name}.svg)"]
    return "\n".join(lines) + "\n"


def _note(recipe: TableRecipe, data: str) -> str:
    return (
        f"Measured on {data}. Published numbers are those of the paper's table {recipe.table}; they were measured with "
        "the published features on the official test set, so compare rows with rows, not the two halves of a row. "
        "± is the standard deviation over seeds; all numbers × 100."
    )


def as_csv(rows: Sequence[TableRow]) -> str:
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    columns = ["row", "venue", "sentences", "pseudo", "published_features"]
    columns += [f"published_{name}" for name in METRICS] + ["features"]
    columns += [f"{name}_{what}" for name in METRICS for what in ("mean", "std")] + ["seeds"]
    writer.writerow(columns)
    for row in rows:
        cells: list[Any] = [row.name, row.venue, row.sentences, row.pseudo, row.published_features]
        cells += ["" if value is None else value for value in row.published] + [row.features]
        for value in row.measured:
            cells += ["", ""] if value is None else [round(value[0], 4), round(value[1], 4)]
        writer.writerow([*cells, row.seeds])
    return buffer.getvalue()


def as_latex(recipe: TableRecipe, rows: Sequence[TableRow], data: str) -> str:
    """A table of the booktabs package."""
    names = " & ".join(_SHORT[name] for name in METRICS)
    lines = [
        "% needs \\usepackage{booktabs}",
        "\\begin{table}",
        "\\centering",
        f"\\caption{{{_escaped(recipe.title)}, {_escaped(data)}: published and measured.}}",
        "\\begin{tabular}{lrrlrrrrlrrrrr}",
        "\\toprule",
        " & & & \\multicolumn{5}{c}{published} & \\multicolumn{6}{c}{measured} \\\\",
        "\\cmidrule(lr){4-8} \\cmidrule(lr){9-14}",
        f"Row & GT & Pse & Features & {names} & Features & {names} & Seeds \\\\",
        "\\midrule",
    ]
    lines += [" & ".join(_escaped(cell) for cell in row.cells) + " \\\\" for row in rows]
    lines += ["\\bottomrule", "\\end{tabular}", "\\end{table}"]
    return "\n".join(lines) + "\n"


def _escaped(text: str) -> str:
    for sign in "&%$#_{}":
        text = text.replace(sign, "\\" + sign)
    return text.replace("±", "$\\pm$")


def plot(recipe: TableRecipe, rows: Sequence[TableRow], metric: str) -> str | None:
    """Published and measured values of one metric, over the axis of the table or row by row; None: nothing measured."""
    place = METRICS.index(metric)
    if not any(row.measured[place] for row in rows):
        return None
    title = f"{NAMES[metric]}: {recipe.title}"
    if not recipe.axis:
        marks = []
        for row in rows:
            if (value := row.measured[place]) is not None:
                low, high = value[0] - value[1], value[0] + value[1]
                marks.append(Mark(f"{row.name}, GT {row.sentences}, pseudo {row.pseudo}", value[0], "run", low, high))
            if (known := row.published[place]) is not None:
                marks.append(Mark(f"{row.name}, published", known, "frequent"))
        return _standalone(str(scale_chart(title, marks, named=True)))
    series = []
    styles = iter(("line-a", "line-c", "line-d", "line-b"))
    for name in dict.fromkeys((row.series or row.name) for row in rows):
        own = [row for row in rows if (row.series or row.name) == name and row.x is not None]
        measured = [(row.x or 0.0, value[0] if (value := row.measured[place]) else None) for row in own]
        published = [(row.x or 0.0, row.published[place]) for row in own]
        style = next(styles, "line-b")
        for label, points, kind in (("measured", measured, style), ("published", published, f"{style} dashed")):
            if any(value is not None for _, value in points):
                series.append(Series(f"{name} {label}", points, kind))
    return _standalone(str(line_chart(title, series, x_label=recipe.axis, whole_numbers=False, legend=True)))


def _standalone(svg: str) -> str:
    """An SVG file of its own: with a name space and the colours that the report's page would give."""
    opened = svg.replace("<svg ", '<svg xmlns="http://www.w3.org/2000/svg" ', 1)
    end = opened.index(">") + 1
    return opened[:end] + _STYLE + opened[end:] + "\n"


def as_rich(rows: Sequence[TableRow], title: str) -> Table:
    from rich.table import Table

    table = Table(title=title, title_justify="left", box=None, pad_edge=False)
    for place, column in enumerate(header()):
        table.add_column(column, justify="left" if place in (0, 3, 8) else "right")
    for row in rows:
        table.add_row(*row.cells)
    return table
