"""Rejects candidates that say something else than the sentence they were made from.

Locked keywords do not keep the meaning: "two rhinos are walking" may become "a dog is pushing a rhino walking in the
snow". What that costs a captioner stands in docs/LOG.md.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from fewcap.pseudo.judge import Judged
from fewcap.text.embed import SentenceEncoder


def near_enough(
    verdicts: Mapping[str, Sequence[Judged]], encoder: SentenceEncoder, limit: float
) -> dict[str, list[Judged]]:
    """The same verdicts; whoever passed and lies below ``limit`` (cosine with its given sentence) passes no more."""
    passed = [judged for group in verdicts.values() for judged in group if not judged.why]
    candidates = encoder.encode([judged.text for judged in passed])
    given = encoder.encode([judged.source.text for judged in passed])
    nearness = dict(zip(map(id, passed), (candidates * given).sum(1).tolist(), strict=True))

    def again(judged: Judged) -> Judged:
        near = nearness.get(id(judged), 1.0)
        if near >= limit:
            return judged
        return replace(judged, why=f"means something else than the given sentence (nearness {near:.2f})")

    return {video: [again(judged) for judged in group] for video, group in verdicts.items()}
