"""Shards: a table scored slice by slice, by several workers, into a folder that any run can continue."""
