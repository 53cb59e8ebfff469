"""Columns of operations, grouped and summed: one file for each section of the report."""
