"""Two systems or two judges: `compare`, `link`, `jury`, `watch` and `audit`."""
