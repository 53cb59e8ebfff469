"""Ops of one side -> what was in flight, and which limit held it: threads of the server, slots of the client."""
