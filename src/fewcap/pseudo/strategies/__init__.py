"""Ways of inventing sentences behind one interface: the editor, what others would say, and the editor's rivals."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from fewcap.core.config.label import LabelConfig
from fewcap.pseudo.candidates import Strategy
from fewcap.pseudo.retelling import has_read, known_words, refuse_if_read

log = logging.getLogger("fewcap.pseudo")

_KNOWN = 0.85  # share of the given words that a model must know to say them in others' words


def settled(config: LabelConfig, source: str, given: Sequence[str]) -> LabelConfig:
    """The configuration with a strategy that fits this source of data and these sentences."""
    model = config.retell.model
    if config.strategy == "retell":
        refuse_if_read(model, source)
    if config.strategy != "auto":
        return config
    strategy, why = "retell", "what others would say gains most"
    if has_read(model, source):
        strategy, why = "edit", f"the retelling model has read the captions of {source}"
    elif (known := known_words(model, given)) < _KNOWN:
        strategy, why = "edit", f"the retelling model knows only {known:.0%} of the words of the given sentences"
    log.info("label.strategy: %s (%s)", strategy, why)
    return config.model_copy(update={"strategy": strategy})


def load_strategy(config: LabelConfig, *, seed: int) -> Strategy:
    """The strategy that the configuration names, ready to work; what is missing is said here."""
    from fewcap.pseudo.language import LanguageModels
    from fewcap.pseudo.strategies.edit import Edit
    from fewcap.pseudo.strategies.scored import Scored

    if config.strategy == "retell":
        from fewcap.pseudo.strategies.retell import Retell

        return Retell.load(config, seed=seed)
    models = LanguageModels.load(config.models, config.precision)
    if config.strategy == "edit":
        return Edit.of(models, config, seed=seed)
    return Scored(_rival(config, seed), models)


def _rival(config: LabelConfig, seed: int) -> Strategy:
    if config.strategy == "translation":
        from fewcap.pseudo.strategies.translation import BackTranslation

        return BackTranslation.load(config, seed=seed)
    if config.strategy == "llm":
        from fewcap.pseudo.strategies.llm import Paraphrase

        return Paraphrase.load(config, seed=seed)
    from fewcap.pseudo.strategies.wordwise import MaskedReplacement, RandomInsertion, SynonymReplacement

    rivals = {"synonyms": SynonymReplacement, "insertion": RandomInsertion, "masked": MaskedReplacement}
    return rivals[config.strategy](config, seed=seed)


def strategy_digest(config: LabelConfig) -> dict[str, str]:
    """Hash of the language models, on which the editor, the masked rival and their fluency scores depend, or of the
    model that retells."""
    if config.strategy == "retell":
        from fewcap.pseudo.retelling import retelling_digest

        return {"retelling": retelling_digest(config.retell.model)}
    from fewcap.pseudo.language import models_digest

    return {"models": models_digest(config.models)}
