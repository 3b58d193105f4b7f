"""Agreement of scores with people: correlations, levels, intervals, tests and tables. Pure numpy; reads no files."""
