"""Ops of two captures -> connections and ops that both show, and why the others have no partner."""
