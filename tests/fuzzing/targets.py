"""What hostile input is thrown at: one case function for each way into the library."""

from tests.fuzzing.choices import choice_file, choice_protocol, onnx_file
from tests.fuzzing.coalitions import sums_file
from tests.fuzzing.commands import command_line
from tests.fuzzing.commitments import commitment_file
from tests.fuzzing.estimators import estimator
from tests.fuzzing.hints import hint_file
from tests.fuzzing.judging import Case
from tests.fuzzing.models import model_file
from tests.fuzzing.paths import paths
from tests.fuzzing.protocols import protocol_file
from tests.fuzzing.states import audit_checkpoint, fit_checkpoint, score_stream_state, stream_state
from tests.fuzzing.tables import csv_twins, table_case, weights_column

#: Targets by name, those that mutate valid input.
TARGETS: dict[str, Case] = {
    "model file": model_file,
    "protocol file": protocol_file,
    "commitments": commitment_file,
    "hints": hint_file,
    "sums": sums_file,
    "choice protocol": choice_protocol,
    "choice file": choice_file,
    "onnx": onnx_file,
    "stream state": stream_state,
    "score stream state": score_stream_state,
    "fit checkpoint": fit_checkpoint,
    "audit checkpoint": audit_checkpoint,
    "csv twins": csv_twins,
    "csv": table_case(".csv"),
    "svmlight": table_case(".svm"),
    "npz": table_case(".npz"),
    "parquet": table_case(".parquet"),
    "weights column": weights_column,
    "paths": paths,
    "estimators": estimator,
    "command line": command_line,
}


#: MiB that a case may take: more where the input says how many columns there are.
MEMORY = {
    "sums": 128.0,  # certificates of batches draw
    "protocol file": 128.0,
    "drawn protocol file": 128.0,
    "svmlight": 256.0,
    "estimators": 256.0,
    "command line": 256.0,
    "paths": 256.0,
}
