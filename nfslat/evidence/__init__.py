"""Text that hosts and applications print -> small records: one module for each source."""
