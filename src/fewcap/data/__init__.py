"""Videos and captions: one reader a corpus, and the seeded choice of sentences."""
