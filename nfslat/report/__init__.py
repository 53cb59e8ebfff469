"""The report: its model, and one renderer for each format."""
