"""Summaries of many clients -> who suffers, and what they have in common."""
