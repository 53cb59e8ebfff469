"""Captures while they are made, or too long to be held: what happens, window by window."""
