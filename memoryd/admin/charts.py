"""Draw charts as SVG images: numbers and days, no text of a memory. An image runs no script and loads nothing."""

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
# What pygal leaves to find its plugins is of an old kind, about which Python warns at every import.
sys.meta_path[:] = [one for one in sys.meta_path if type(one).__module__.partition(".")[0] != "pygal"]
_ACTIVE = re.compile(r"<script\b.*?</script>|<script\b[^>]*/>|<\?xml[^>]*\?>|<!--.*?-->", re.DOTALL)


def draw_sizes(sizes: Mapping[str, Sequence[int]], days: Sequence[str]) -> str:
    """Return the tokens of each tier over days as lines."""
    chart = pygal.Line(**_options(), fill=False, show_dots=False)
    chart.x_labels = list(days)
    chart.x_labels_major = list(days)[:: max(1, len(days) // 5)]
    for name, values in sizes.items():
        chart.add(name, list(values))
    return _render(chart)


def draw_losses(losses: Sequence[tuple[str, float]], limit: float) -> str:
    """Return the share of the deletion limit that is used, by day, as bars with the limit beside them."""
    chart = pygal.Bar(**_options(), range=(0, max([limit, *(value for _, value in losses)])))
    chart.x_labels = [day for day, _ in losses]
    chart.add("percent of the core", [value for _, value in losses])
    chart.add("limit", [limit] * len(losses))
    return _render(chart)


def _options() -> dict[str, object]:
    """Return the options of all charts: no script, no declaration, colours that both modes can show."""
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
    """Return a chart without scripts and comments: it is shown as an image, in which nothing may run."""
    return _ACTIVE.sub("", chart.render(is_unicode=True))
