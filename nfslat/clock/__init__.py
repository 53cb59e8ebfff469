"""Matched ops -> what is known of the two hosts' clocks: theta, its bounds, drift and steps."""
