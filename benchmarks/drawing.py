"""Pictures of docs/: SVG with its words as text, without a background, in colours for light and for dark pages."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

GREY = "#7b7b7b"
"""Of words and lines: as far from white as from GitHub's dark background."""
COLOURS = ("#2f81f7", "#d9730d", "#2da44e", "#bf5af2", "#c69026", "#e5534b", "#1b9e9e")
_STYLE = {
    "svg.fonttype": "none",
    "svg.hashsalt": "toolroute",
    "font.family": "sans-serif",
    **dict.fromkeys(
        ("text.color", "axes.edgecolor", "axes.labelcolor", "xtick.color", "ytick.color"), GREY
    ),
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.color": GREY,
    "grid.alpha": 0.25,
    "legend.frameon": False,
    "legend.fontsize": 8,
    "lines.markersize": 4,
}


@contextmanager
def chart(file: Path, **axes_set: Any) -> Iterator[Any]:
    """Yield Matplotlib's axes. The drawing is written to the file at the end, with the same bytes each time."""
    import matplotlib as mpl

    mpl.use("svg")
    from cycler import cycler
    from matplotlib import pyplot as plt

    with mpl.rc_context({**_STYLE, "axes.prop_cycle": cycler(color=COLOURS)}):
        figure, axes = plt.subplots(figsize=(6, 4), layout="constrained")
        yield axes
        axes.set(**axes_set)
        _plain_numbers(axes)
        if axes.get_legend_handles_labels()[0]:
            axes.legend()
        figure.savefig(file, metadata={"Date": None}, transparent=True)
        plt.close(figure)


def _plain_numbers(axes: Any) -> None:
    """1, 2, 5, 10, ... on a logarithmic axis, in place of powers."""
    from matplotlib.ticker import LogLocator, NullFormatter, StrMethodFormatter

    for axis in (axes.xaxis, axes.yaxis):
        if axis.get_scale() == "log":
            axis.set_major_locator(LogLocator(subs=(1, 2, 5)))
            axis.set_major_formatter(StrMethodFormatter("{x:,g}"))
            axis.set_minor_formatter(NullFormatter())
