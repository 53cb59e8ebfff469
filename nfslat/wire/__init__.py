"""What TCP and the path did to ops: stalls, retransmissions, reconnects, and whose time that was."""
