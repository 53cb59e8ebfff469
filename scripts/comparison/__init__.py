"""Two checkouts of nfslat -> whether they give the same output, byte for byte."""
