"""Matched ops -> files for other programs: CSV, Parquet, Perfetto; pseudonyms; and how an output file is written."""
