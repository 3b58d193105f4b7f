"""The jobs end to end, resumable: the one place that composes loaders, ladders, judges, rules and evaluation."""
