"""Matched ops -> the aggregates that pictures are drawn from; `nfslat.summarize_pictures` puts them together."""
