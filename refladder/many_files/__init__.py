"""Many files: each is scored by one worker, into a folder that the same command continues."""
