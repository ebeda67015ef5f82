"""Numbers to pages: charts as Vega-Lite, and one HTML file that needs no network."""

from rankwright.report.figures import (
    plot_contributions,
    plot_learning_curves,
    plot_means,
    plot_per_query,
    plot_thresholds,
    plot_win_loss,
)
from rankwright.report.page import Chart, Page, Section, write_page

__all__ = [
    "Chart",
    "Page",
    "Section",
    "plot_contributions",
    "plot_learning_curves",
    "plot_means",
    "plot_per_query",
    "plot_thresholds",
    "plot_win_loss",
    "write_page",
]
