"""Speed of the batched editor against the one-sentence-at-a-time loop, same models and edits, as a ratio in one run.

    python bench/pseudo.py [--sentences 100] [--loop 5] [--threads 1]

Both run the shipped models on the same keywords with the same seeds and must write the same sentences. The loop asks
each network about one sentence at a time, as published implementations do.
"""

from __future__ import annotations

import argparse
import json
import resource
import time

import numpy as np
import torch

from fewcap.core.config.label import EditConfig
from fewcap.pseudo.chain import Chain
from fewcap.pseudo.editor import Editor, Seed
from fewcap.pseudo.equations import allowed_edits, choose_edit, choose_words, wants_edit, word_log_scores
from fewcap.pseudo.language import DELETE, LanguageModels

CHAINS = 10
SUBJECTS = ("man", "woman", "boy", "girl", "dog", "cat", "chef", "baby", "horse", "monkey")
VERBS = ("playing", "eating", "holding", "cutting", "riding", "washing", "throwing", "pushing", "cooking", "watching")
OBJECTS = ("guitar", "onion", "ball", "bicycle", "car", "food", "bread", "box", "fish", "piano")


def keywords(count: int) -> list[tuple[str, ...]]:
    """Different triples; MSVD captions have about three keywords."""
    return [(SUBJECTS[i % 10], VERBS[(i // 10 + i) % 10], OBJECTS[(i // 100 + 3 * i) % 10]) for i in range(count)]


@torch.inference_mode()
def one_at_a_time(models: LanguageModels, seed: Seed, config: EditConfig, editor: Editor) -> tuple[str, ...]:
    """The same edits with a call of each network for one sentence."""
    chain = Chain.of_keywords(seed.keywords, models.codec, seed.key)
    for _ in range(config.steps):
        ids = torch.tensor([chain.ids])
        probs = models.classifier(input_ids=ids, use_mems=False).logits[0].float().softmax(-1).numpy()
        allowed = allowed_edits(chain.locked, chain.starts, len(chain.words) < config.longest)
        # The first edit is made in any case, as in the editor.
        if not allowed.any() or not wants_edit(probs, allowed, config.stop if chain.edits else 0.0):
            break
        draws = tuple(chain.generator.random(2))
        action, position = choose_edit(probs, allowed, config.action_temperature, (draws[0], draws[1]))
        probability = float(probs[position, action])
        if action == DELETE:
            chain.delete(position, probability)
            continue
        left, right = chain.contexts(action, position)
        forward = models.forward(input_ids=torch.tensor([left]), use_mems=False).logits[:, -1].float().log_softmax(-1)
        backward = (
            models.backward(input_ids=torch.tensor([right]), use_mems=False).logits[:, -1].float().log_softmax(-1)
        )
        present = torch.zeros(1, len(models.codec), dtype=torch.bool)
        present[0, chain.ids] = True
        scores = word_log_scores(forward, backward, present, config.penalty)
        uniforms = torch.tensor([chain.generator.random()], dtype=torch.float64)
        banned = editor.banned([(chain, action, position, probability)])
        token, share = choose_words(scores, banned, config.temperature, config.top_words, uniforms)
        chain.write(action, position, int(token), models.codec.word(int(token)), probability, float(share))
    return tuple(chain.words)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sentences", type=int, default=100, help="sentences of the batched editor, ten chains each")
    parser.add_argument("--loop", type=int, default=5, help="sentences of the loop, ten chains each")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--models", default="fewcap")
    parser.add_argument("--precision", default="auto")
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    models = LanguageModels.load(args.models, args.precision)
    config = EditConfig()
    editor = Editor(models, config, batch=2048)
    seeds = [
        Seed(words, f"0/{i}/0/{chain}") for i, words in enumerate(keywords(args.sentences)) for chain in range(CHAINS)
    ]
    list(editor.drafts(seeds[:20]))  # warm up

    # Processor time, not the clock: other programs on the machine then do not count.
    started = time.process_time()
    chains = editor.edited(seeds)
    together = (time.process_time() - started) / len(seeds)
    subset = seeds[: CHAINS * args.loop]
    started = time.process_time()
    alone = [one_at_a_time(models, seed, config, editor) for seed in subset]
    apart = (time.process_time() - started) / len(subset)
    same = np.mean([words == tuple(chain.words) for words, chain in zip(alone, chains, strict=False)])
    edits = np.mean([len(chain.edits) for chain in chains])
    started = time.process_time()
    half = list(editor.drafts(seeds[: len(seeds) // 2]))
    scored = (time.process_time() - started) / len(half)
    assert [draft.words for draft in half] == [tuple(chain.words) for chain in chains[: len(half)]]
    result = {
        "candidates_a_second_batched": round(1 / together, 1),
        "candidates_a_second_loop": round(1 / apart, 1),
        "ratio": round(apart / together, 1),
        "edits_a_candidate": round(float(edits), 1),
        "same_sentences_percent": round(100 * float(same), 1),
        "seconds_for_1200_videos_x_10_with_scores": round(12_000 * scored),
        "peak_memory_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024,
    }
    print(json.dumps(result, indent=1))


if __name__ == "__main__":
    main()
