"""File handles -> paths: what calls and replies say of which handle is which file, put together, and shown."""
