"""Whether a captioner says the same thing of every clip, and whether it names what is there."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import cache

from fewcap.core.progress import track
from fewcap.evaluation.ptb import tokens
from fewcap.text.keywords import keywords


def diversity(captions: Collection[str], training: Collection[str] = ()) -> dict[str, float | int | str]:
    """Distinct n-grams, different captions, vocabulary; with training captions also the share of new sentences."""
    sentences = [tuple(tokens(caption)) for caption in captions]
    if not sentences:
        return {}
    commonest, times = Counter(sentences).most_common(1)[0]
    found: dict[str, float | int | str] = {
        "distinct_1": _distinct(sentences, 1),
        "distinct_2": _distinct(sentences, 2),
        "different_captions": len(set(sentences)) / len(sentences),
        "vocabulary": len({word for sentence in sentences for word in sentence}),
        "mean_length": sum(map(len, sentences)) / len(sentences),
        "commonest_caption": " ".join(commonest),
        "commonest_share": times / len(sentences),
    }
    if training:
        known = {tuple(tokens(caption)) for caption in training}
        found["new_sentences"] = sum(sentence not in known for sentence in sentences) / len(sentences)
    return found


def _distinct(sentences: Sequence[tuple[str, ...]], n: int) -> float:
    grams = [sentence[i : i + n] for sentence in sentences for i in range(len(sentence) - n + 1)]
    return len(set(grams)) / len(grams) if grams else 0.0


def keyword_scores(captions: Mapping[str, str], references: Mapping[str, Sequence[str]]) -> dict[str, float]:
    """Keyword precision and recall × 100, as means over items.

    Precision is the share of a caption's nouns and verbs that some reference has; recall the share of a reference's
    nouns and verbs that the caption has, averaged over the item's references. Words are compared by their stems.
    """
    stems = _stemmer()
    precisions, recalls = [], []
    for identifier, caption in track(captions.items(), "keywords of captions and references", total=len(captions)):
        own = stems(caption)
        groups = [group for group in map(stems, references[identifier]) if group]
        if not groups:
            continue
        if own:
            precisions.append(len(own & frozenset().union(*groups)) / len(own))
        recalls.append(sum(len(own & group) / len(group) for group in groups) / len(groups))
    precision, recall = _mean(precisions), _mean(recalls)
    f1 = 2 * precision * recall / (precision + recall) if precision + recall else 0.0
    return {"precision": 100 * precision, "recall": 100 * recall, "f1": 100 * f1}


def _stemmer() -> Callable[[str], frozenset[str]]:
    from nltk.stem.porter import PorterStemmer

    stem = cache(PorterStemmer().stem)

    @cache
    def stems(sentence: str) -> frozenset[str]:
        return frozenset(stem(word) for word in keywords(sentence))

    return stems


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values) if values else 0.0
