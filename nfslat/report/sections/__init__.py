"""Report -> sections, each a list of blocks (report/blocks.py); what a section says is decided here, once."""
