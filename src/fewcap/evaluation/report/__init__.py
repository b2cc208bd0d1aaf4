"""One self-contained HTML page for a run."""

from fewcap.evaluation.report.write import write_report

__all__ = ["write_report"]
