"""Told sentences that sound like the given ones are preferred.

The retelling model writes as the people of other data sets do ("a man is talking about a car", "a piece of paper"); so
would a captioner that learns from it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from fewcap.pseudo.judge import Judged
from fewcap.text.closeness import standardised
from fewcap.text.resemblance import WordPairs


def sounding_like(verdicts: Mapping[str, Sequence[Judged]], given: Sequence[str]) -> dict[str, list[Judged]]:
    """The same verdicts, with more merit for candidates that passed and that the word pairs of the given sentences make
    likelier than the word pairs of all candidates do: the difference, standardised among the video's candidates.

    Candidates without a merit stay as they are."""
    if all(judged.candidate.merit is None for group in verdicts.values() for judged in group):
        return {video: list(group) for video, group in verdicts.items()}
    texts = [judged.text for group in verdicts.values() for judged in group]
    vocabulary = len({word for text in (*texts, *given) for word in text.split()})
    own, general = WordPairs(given, vocabulary), WordPairs(texts, vocabulary)

    def again(group: Sequence[Judged]) -> list[Judged]:
        rated = [j for j in group if not j.why and j.candidate.merit is not None]
        likeness = np.array([own.log_probability(j.text) - general.log_probability(j.text) for j in rated])
        added = dict(zip(map(id, rated), standardised(likeness).tolist(), strict=True))
        return [_worthier(j, added[id(j)]) if id(j) in added else j for j in group]

    return {video: again(group) for video, group in verdicts.items()}


def _worthier(judged: Judged, merit: float) -> Judged:
    candidate = judged.candidate
    return replace(judged, candidate=replace(candidate, merit=(candidate.merit or 0.0) + merit))
