"""Words: tokenising, vocabulary, keywords, sentence embeddings."""
