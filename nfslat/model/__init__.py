"""What passes between the rooms: tables, details, names and numbers of the protocol; no arithmetic."""
