"""What the stages found -> the report model: one module a section."""
