"""Answer -> text, Markdown, HTML page, pictures: one renderer for each format."""
