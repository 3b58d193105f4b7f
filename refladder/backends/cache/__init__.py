"""The response store: answers of backends on disk, so that none is paid for twice."""
