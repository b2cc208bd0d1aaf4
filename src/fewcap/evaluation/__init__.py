"""Metrics that equal the reference code, confidence, floors, the paper's tables and the report."""
