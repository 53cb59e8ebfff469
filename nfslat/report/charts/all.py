"""Report -> its charts, in the order in which a reader asks."""

from __future__ import annotations

from nfslat.answer.model import Report
from nfslat.report.charts.chart import Chart
from nfslat.report.charts.clock import clock_chart
from nfslat.report.charts.distributions import distributions
from nfslat.report.charts.heat import heat_chart
from nfslat.report.charts.knee import knee_chart
from nfslat.report.charts.parts import parts_chart
from nfslat.report.charts.transport import transport_chart
from nfslat.report.charts.waterfall import waterfalls


def charts(report: Report) -> list[Chart]:
    """Of what the report knows; a chart that would show nothing is not there."""
    makers = (waterfalls, distributions, heat_chart, knee_chart, parts_chart, clock_chart, transport_chart)
    return [chart for make in makers for chart in make(report)]
