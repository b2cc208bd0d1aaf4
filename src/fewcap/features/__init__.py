"""Video in, appearance, motion and object features out."""
