"""Sides -> what the reader must know before believing a figure: notes on each capture, and on the comparison."""
