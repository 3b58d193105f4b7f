"""Files: records as JSON lines, user tables, ladder sets, locks."""
