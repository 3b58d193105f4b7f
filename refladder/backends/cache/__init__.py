"""The response store: answers that are kept, so that none is paid for twice."""
