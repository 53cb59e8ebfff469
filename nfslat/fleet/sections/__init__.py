"""The fleet report -> sections, each a list of blocks (report/blocks.py), and words that they share with the page."""
