"""A contest of models, and the review page: runs in the browser, with ratings of people. The core imports neither."""
