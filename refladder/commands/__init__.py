"""One module for each command: its declaration, the call of the same name, and what it prints."""
