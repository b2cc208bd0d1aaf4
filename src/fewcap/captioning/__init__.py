"""The captioner: model, training, decoding."""
