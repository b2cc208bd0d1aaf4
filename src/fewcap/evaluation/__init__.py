"""Metrics, tables and the report."""
