"""Models for other tools: scikit-learn, ONNX, SQL, and a table of coefficients.

Each export takes a `replearn.Model` or a fitted classifier and gives the same predictions without
replearn. What each promises, and its limits: docs/exports.md.
"""

from replearn.exports.coefficients import to_csv
from replearn.exports.onnx_graph import to_onnx
from replearn.exports.sklearn_parts import to_sklearn
from replearn.exports.sql import Sql, to_sql

__all__ = ["Sql", "to_csv", "to_onnx", "to_sklearn", "to_sql"]
