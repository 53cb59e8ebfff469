"""The second engine: Wireshark's dissection -> messages -> ops; slow, and an independent witness."""
