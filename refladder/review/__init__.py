"""The review page: what a run wrote, ratings of people beside it, and a server for both."""
