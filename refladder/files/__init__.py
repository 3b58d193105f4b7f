"""Files: records as JSON lines, tables of a user, ladder sets, locks."""
