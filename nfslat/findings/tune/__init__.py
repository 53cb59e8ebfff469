"""Snapshots of hosts -> what to change on them; and the facts and commands that every advice is made of."""
