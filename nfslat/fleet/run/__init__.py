"""Captures of a server and its clients, wherever they are -> decoded, paired and summed up, task by task."""
