"""Captures of one server and of many of its clients -> one report: which clients suffer, and what they have in common."""
