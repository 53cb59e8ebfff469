"""Sizes of rows, reads and writes -> SDUs, segments and bytes on the wire, without a capture."""
