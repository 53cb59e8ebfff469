"""What reads the captures once more: single ops in full (`show`), and their packets as pcapng (`extract`)."""
