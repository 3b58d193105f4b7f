"""The group of all commands, and the commands that use several features."""
