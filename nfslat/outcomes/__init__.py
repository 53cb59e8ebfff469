"""Ops and the statuses that servers answered -> counts, requests that were tried again, recovery of lost state."""
