"""TCP conversations of any protocol: what is in a capture's packets -> what limited whom, and for how long."""
