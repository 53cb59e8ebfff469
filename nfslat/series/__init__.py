"""Runs of one load that was made larger step by step: from where its latency leaves the storage's, and which limit."""
