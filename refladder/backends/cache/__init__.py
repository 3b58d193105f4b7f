"""The response store: answers of backends on disk, so that no answer is paid for twice."""
