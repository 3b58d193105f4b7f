"""What the commands print of sets, certificates and scores."""
