"""Models for other programs: CSV, SQL, ONNX and scikit-learn, written from one rule."""

from replearn.exports.coefficients import harmless, to_csv
from replearn.exports.onnx_graph import to_onnx
from replearn.exports.sklearn_parts import to_sklearn
from replearn.exports.sql import to_sql
