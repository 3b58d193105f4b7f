"""Students: small regressors that have learned the scores of a judge, for a first pass over many rows."""

from refladder.students.student import RECORD, Regressor, Student, open_student, save_student

__all__ = ["RECORD", "Regressor", "Student", "open_student", "save_student"]
