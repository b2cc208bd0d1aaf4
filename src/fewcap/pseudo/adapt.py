"""Lets the editor's models learn how the given sentences sound, from these sentences alone."""

from __future__ import annotations

import logging
import random
from collections.abc import Sequence
from pathlib import Path

from fewcap.core.config.label import AdaptConfig, NoiseConfig
from fewcap.pseudo.language import LanguageModels
from fewcap.pseudo.synthetic import Creator
from fewcap.pseudo.training import Sentences, action_loss, directed_loss, frequencies, reversed_loss, synthetic_pairs
from fewcap.text.tokenise import words

log = logging.getLogger("fewcap.pseudo")

HELD_OUT = 10  # every tenth given sentence decides when to stop
TOKENS = 512  # of a step: few sentences, small steps
LONGEST = 30


def adapt_models(
    name: str, sentences: Sequence[str], config: AdaptConfig, noise: NoiseConfig, out: Path, *, scratch: Path, seed: int
) -> bool:
    """Writes models that also know the given sentences to `out`; False when there are too few to learn from."""
    distinct = list(dict.fromkeys(tuple(words(sentence)) for sentence in sentences))
    usable = [sentence for sentence in distinct if 2 <= len(sentence) <= LONGEST]
    if config.epochs == 0 or len(usable) < config.fewest:
        return False
    random.Random(seed).shuffle(usable)
    tested, learned = usable[::HELD_OUT], [s for i, s in enumerate(usable) if i % HELD_OUT]
    models = LanguageModels.load(name)
    codec = models.codec
    train = [codec.encode(sentence) for sentence in learned]
    data = Sentences(train, [codec.encode(sentence) for sentence in tested], TOKENS, seed)
    data.fit(models.forward, directed_loss, config.epochs, config.rate, scratch / "forward")
    data.fit(models.backward, reversed_loss, config.epochs, config.rate, scratch / "backward")

    creator = Creator(models.masked, codec, noise, frequencies(train, len(codec)))
    generator = random.Random(seed)
    draws = [synthetic_pairs(creator, learned, codec, generator) for _ in range(max(1, round(config.epochs)))]
    pairs = Sentences(
        [pair for drawn in draws for pair in drawn],
        synthetic_pairs(creator, tested, codec, generator),
        2 * TOKENS,
        seed,
    )
    pairs.fit(models.classifier, action_loss, 1.0, config.rate, scratch / "classifier")
    models.save(out)
    return True
