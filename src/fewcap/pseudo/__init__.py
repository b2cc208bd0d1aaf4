"""Pseudo-labels: captions invented around the keywords of the given ones."""
