"""Adapters for other packages: a reward of TRL, a scorer of Inspect, a filter of datatrove. Each needs its extra."""
