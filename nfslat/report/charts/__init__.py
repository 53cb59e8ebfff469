"""Report model -> charts, as Vega-Lite specifications."""
