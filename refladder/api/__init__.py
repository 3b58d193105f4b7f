"""What `import refladder` offers beside the records: the jobs of the command line as plain calls."""
