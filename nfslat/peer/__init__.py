"""One capture: the packets of the other host -> when it received and sent what (docs/one_capture.md)."""
