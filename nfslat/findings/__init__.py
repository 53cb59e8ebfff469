"""Figures of the stages -> the verdict: one module per question, each finding one function."""
