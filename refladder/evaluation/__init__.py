"""Methods against people: agreement, report cards, figures, and the rows of a benchmark."""
