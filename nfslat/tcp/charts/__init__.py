"""What graphs of TCP conversations are drawn from -> charts, as Vega-Lite specifications."""
