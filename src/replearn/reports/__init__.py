"""What results say: evaluations, comparisons, checks, audits, and any file of ours."""
