"""What of each op's time TCP and the path made, by cause."""
