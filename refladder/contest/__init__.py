"""A contest of models, and the review page: runs in the browser, with human ratings. The core imports neither."""
