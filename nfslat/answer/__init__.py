"""The answer as records: the report model and its JSON; everything that is printed or drawn comes from here."""
