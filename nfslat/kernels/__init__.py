"""Inner loops over columns, compiled: what goes in and comes out, in numpy's arrays."""
