"""From labels to a promise and a threshold: `calibrate`, `filter` and `pairs`."""
