"""Capture file -> ops of one side: the native decoder, files that were decoded before, and tshark."""
