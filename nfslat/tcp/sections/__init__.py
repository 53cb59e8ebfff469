"""The report on TCP conversations -> sections, each a list of blocks (report/blocks.py)."""
