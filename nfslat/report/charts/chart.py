"""What a chart is: a Vega-Lite specification and the words around it."""

from __future__ import annotations

from typing import Any

from nfslat.model.record import Record

Spec = dict[str, Any]

# The newest Vega-Lite of vl-convert 1.9; `javascript_bundle(vl_version=...)` and the PNGs use the same.
VEGA_LITE = "6.4"


class Chart(Record):
    """A picture of one thing. `spec` has its data in it, ``width: "container"``, and no colours of text, grid and
    paper: these come with the configuration `style.theme`."""

    id: str  # unique in a report; letters, digits, "-": the name of a file and of an element
    title: str
    caption: str  # what is drawn, and how to read it
    alt: str  # what it shows, with figures, for those who do not see it
    spec: Spec
    height_px: int  # of the whole drawing, about
    section: str  # waterfall, distributions, heat, knee, parts, clock or transport
