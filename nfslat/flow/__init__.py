"""Two captures of any length -> one report, window by window, in bounded memory."""
