"""Students: small regressors that have learned the scores of a judge, for a first pass over many rows."""
