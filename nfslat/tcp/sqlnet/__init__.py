"""SQL*Net in a TCP conversation: what was agreed on, and how full its SDUs are."""
