"""Where the packets of `nfslat live` come from: hosts, files that grow, sets of them; each becomes a pipe."""
