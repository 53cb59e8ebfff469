"""`nfslat extract`: the packets of single ops, out of both captures, into one pcapng file."""
