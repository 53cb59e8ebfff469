"""The report as one self-contained HTML page: templates, style, script, and what puts them together."""
