"""Matched ops -> the aggregates that pictures are drawn from; `nfslat.figures.pictures.all` puts them together."""
