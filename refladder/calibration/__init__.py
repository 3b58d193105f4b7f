"""From labels of people to a promise and a threshold: `calibrate`, `filter` and `pairs`."""
