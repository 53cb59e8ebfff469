"""Two TCP conversations, or one before and after a moment -> what changed."""
