"""Studies: an original publishes, labs replicate, several labs do both together."""

from replearn.study.agreement import agreement_of, replicate, replicate_more, supported_by
from replearn.study.certificate import Certificate
from replearn.study.coalition import Coalition, combine
from replearn.study.encoder import RowEncoder, TableRows, read_rows
from replearn.study.evidence import Evidence
from replearn.study.halfspace_study import HalfspaceReplication, HalfspaceStudy
from replearn.study.joint_original import Founded, LabColumns, draft_study, lab_columns
from replearn.study.opening import Opening, opened_by
from replearn.study.original import Original, held_out, publish
from replearn.study.own_estimates import NO_ESTIMATES
from replearn.study.passes import PooledFit, State, Sums, encode, findings_of, table_of
from replearn.study.performance import (
    Measure,
    Performance,
    Scored,
    area_under_curve,
    balanced_accuracy,
    calibration_line,
)
from replearn.study.registered import register_study
from replearn.study.replication import (
    MOST_TOLD,
    GlmReplication,
    People,
    Replication,
    agreement_rows,
)
from replearn.study.request import Options, Request
from replearn.study.sample_size import sample_size_row
from replearn.study.shares import Share, joined_shares, lab_shares, unpack_total
from replearn.study.study import GlmStudy, Study, given_glm_study, given_study
from replearn.study.sums import LabSums, lab_sums
from replearn.study.support import Support
