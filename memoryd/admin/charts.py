"""Draw charts of numbers and days as SVG images, without any text of a memory.

An image runs no script and loads nothing.
"""

import re
import sys
from collections.abc import Mapping, Sequence

import pygal
from pygal.style import Style

_STYLE = Style(
    background="transparent",
    plot_background="transparent",
    foreground="#767c88",
    foreground_strong="#767c88",
    foreground_subtle="#9aa0ab",
    colors=("#3b6fd4", "#c2731d", "#2f8f5b", "#a34bb5"),
    font_family="sans-serif",
    label_font_size=16,
    major_label_font_size=16,
    legend_font_size=18,
    title_font_size=18,
)
# pygal registers an outdated finder for its plugins, which makes Python warn at every import.
sys.meta_path[:] = [one for one in sys.meta_path if type(one).__module__.partition(".")[0] != "pygal"]
_ACTIVE = re.compile(r"<script\b.*?</script>|<script\b[^>]*/>|<\?xml[^>]*\?>|<!--.*?-->", re.DOTALL)


def draw_sizes(sizes: Mapping[str, Sequence[int]], days: Sequence[str]) -> str:
    """Return a line chart of the tokens of each tier by day."""
    chart = pygal.Line(**_options(), fill=False, show_dots=False)
    chart.x_labels = list(days)
    chart.x_labels_major = list(days)[:: max(1, len(days) // 5)]
    for name, values in sizes.items():
        chart.add(name, list(values))
    return _render(chart)


def draw_losses(losses: Sequence[tuple[str, float]], limit: float) -> str:
    """Return a bar chart by day of the used share of the deletion limit, with the limit as a second series."""
    chart = pygal.Bar(**_options(), range=(0, max([limit, *(value for _, value in losses)])))
    chart.x_labels = [day for day, _ in losses]
    chart.add("percent of the core", [value for _, value in losses])
    chart.add("limit", [limit] * len(losses))
    return _render(chart)


def _options() -> dict[str, object]:
    """Return the options of all charts: no script, no XML declaration, and colours for light and dark mode."""
    return {
        "style": _STYLE,
        "js": [],
        "width": 800,
        "height": 300,
        "legend_at_bottom": True,
        "disable_xml_declaration": True,
        "show_minor_x_labels": False,
        "no_data_text": "nothing yet",
    }


def _render(chart: pygal.graph.base.BaseGraph) -> str:
    """Return a chart without scripts and comments, because nothing may run in an image."""
    return _ACTIVE.sub("", chart.render(is_unicode=True))
