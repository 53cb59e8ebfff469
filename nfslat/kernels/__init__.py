"""Inner loops: compiled where nfslat._native is built, and the numpy twin of each beside it."""
