"""Two runs of a load, before and after: what changed, how certain that is, and where the time went."""
