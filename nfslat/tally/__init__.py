"""Columns of operations + a key -> partial sums, which add up: however operations are cut, sums are the same."""
