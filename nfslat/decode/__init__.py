"""Capture file -> messages: where the tools are, how a capture is opened, how tshark's output is read."""
