"""Captures on two hosts at once, by ssh: what the hosts say, what it costs, and the tars that come home."""
