"""Captures of one server and of many of its clients -> one report: who suffers, and what they have in common."""
