"""After the fit: agreement of pairs, audits, figures and reports."""
