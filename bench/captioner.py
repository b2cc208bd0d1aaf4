"""The captioner's speed as ratios measured in one run.

    python bench/captioner.py [--threads 1]

1. A training step at the paper's size (d = 768, blocks 1/2/4, batch 128) against the same sizes built from torch's
   own ``nn.TransformerEncoderLayer`` and ``nn.TransformerDecoderLayer``: above 1 means fewcap is faster.
2. Beam-5 decoding with the key/value cache against without it.
3. Seconds to caption a video with stored features, amortised over a batch.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from fewcap.captioning.decode import beam_search
from fewcap.captioning.generate import CachedDecoder, UncachedDecoder, generate
from fewcap.captioning.losses import sentence_loss
from fewcap.captioning.model import CaptionModel, Dims, KeywordBatch, VideoBatch
from fewcap.core.config.caption import CaptionConfig
from fewcap.core.config.train import ModelConfig
from fewcap.text.vocabulary import PAD

VOCABULARY, WORDS, FRAMES, OBJECTS, KEYWORDS = 8000, 12, 20, 20, 4
SIZES = {"appearance": 1536, "motion": 2048, "objects": 2048}
PAPER = ModelConfig(
    width=768, heads=8, video_blocks=1, keyword_blocks=2, decoder_blocks=4, expansion=4, dropout=0.1, anchor=False
)


class TorchCaptioner(nn.Module):
    """The same sizes from torch's layers: encoders for objects, frames and keywords, decoders over both memories."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        d = config.width
        options: dict[str, Any] = {
            "d_model": d,
            "nhead": config.heads,
            "dim_feedforward": config.expansion * d,
            "batch_first": True,
        }
        self.frames = nn.Linear(SIZES["appearance"] + SIZES["motion"], d)
        self.objects = nn.Linear(SIZES["objects"], d)
        self.object_transformer = nn.ModuleList(
            nn.TransformerEncoderLayer(**options, dropout=config.dropout) for _ in range(config.video_blocks)
        )
        self.joint_transformer = nn.ModuleList(
            nn.TransformerDecoderLayer(**options, dropout=config.dropout) for _ in range(config.video_blocks)
        )
        self.refiner = nn.ModuleList(
            nn.TransformerDecoderLayer(**options, dropout=config.dropout) for _ in range(config.keyword_blocks)
        )
        # One decoder layer has one memory: video and keywords are concatenated into it.
        self.decoder = nn.ModuleList(
            nn.TransformerDecoderLayer(**options, dropout=config.dropout) for _ in range(config.decoder_blocks)
        )
        self.extra_attention = nn.ModuleList(  # the second attention and the gate of equation 6
            nn.MultiheadAttention(d, config.heads, config.dropout, batch_first=True)
            for _ in range(config.decoder_blocks)
        )
        self.gates = nn.ModuleList(nn.Linear(2 * d, d) for _ in range(config.decoder_blocks))
        self.words = nn.Embedding(VOCABULARY, d, padding_idx=PAD)
        self.classifier = nn.Linear(d, VOCABULARY)

    def forward(self, video: VideoBatch, keywords: KeywordBatch, words: Tensor) -> Tensor:
        seen_parts = (video.appearance, video.motion, video.objects, video.frame_mask, video.object_mask)
        appearance, motion, objects, frame_mask, object_mask = (part for part in seen_parts if part is not None)
        objects = self.objects(objects)
        for layer in self.object_transformer:
            objects = layer(objects, src_key_padding_mask=~object_mask)
        seen = self.frames(torch.cat([appearance, motion], -1))
        for layer in self.joint_transformer:
            seen = layer(seen, objects, tgt_key_padding_mask=~frame_mask, memory_key_padding_mask=~object_mask)
        said, hidden = self.words(keywords.words), keywords.words == PAD
        for layer in self.refiner:
            said = layer(said, seen, tgt_key_padding_mask=hidden, memory_key_padding_mask=~frame_mask)
        h = self.words(words)
        causal = nn.Transformer.generate_square_subsequent_mask(words.shape[1])
        for layer, attention, gate in zip(self.decoder, self.extra_attention, self.gates, strict=True):
            h = layer(h, seen, tgt_mask=causal, memory_key_padding_mask=~frame_mask, tgt_is_causal=True)
            other, _ = attention(h, said, said, key_padding_mask=hidden, need_weights=False)
            share = torch.sigmoid(gate(torch.cat([h, other], -1)))
            h = share * h + (1 - share) * other
        return self.classifier(h)


def inputs(videos: int) -> tuple[VideoBatch, KeywordBatch, Tensor]:
    torch.manual_seed(0)
    video = VideoBatch(
        torch.rand(videos, FRAMES, SIZES["appearance"]),
        torch.rand(videos, FRAMES, SIZES["motion"]),
        torch.ones(videos, FRAMES, dtype=torch.bool),
        torch.rand(videos, OBJECTS, SIZES["objects"]),
        torch.ones(videos, OBJECTS, dtype=torch.bool),
    )
    words = torch.randint(4, VOCABULARY, (videos, KEYWORDS))
    return video, KeywordBatch(words, torch.rand(videos, KEYWORDS)), torch.randint(4, VOCABULARY, (videos, WORDS))


def training_step(model: nn.Module, forward: Callable[[], Tensor], words: Tensor) -> Callable[[], None]:
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-4)

    def step() -> None:
        loss = sentence_loss(forward().flatten(0, 1), words, torch.ones(len(words))) / len(words)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()

    return step


def alternating(first: Callable[[], object], second: Callable[[], object], rounds: int) -> tuple[float, float]:
    """Median seconds of each, run in turn so that a busy machine slows both alike."""
    times: tuple[list[float], list[float]] = ([], [])
    first(), second()
    for _ in range(rounds):
        for kept, work in zip(times, (first, second), strict=True):
            start = time.perf_counter()
            work()
            kept.append(time.perf_counter() - start)
    return statistics.median(times[0]), statistics.median(times[1])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", type=int, default=None)
    parser.add_argument("--batch", type=int, default=128, help="videos of the training step (the paper: 128)")
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    if options.threads:
        torch.set_num_threads(options.threads)

    video, keywords, words = inputs(options.batch)
    ours = CaptionModel(PAPER, Dims(SIZES, VOCABULARY, 384, KEYWORDS)).train()
    theirs = TorchCaptioner(PAPER).train()
    own, other = alternating(
        training_step(ours, lambda: ours(video, keywords, words).logits, words),
        training_step(theirs, lambda: theirs(video, keywords, words), words),
        options.rounds,
    )
    result = {"training_step_seconds": own, "torch_layers_seconds": other, "training_speedup": other / own}
    print(f"training step: {own:.2f} s, torch's layers {other:.2f} s: {other / own:.2f} times as fast")

    ours.eval()
    video, keywords, _ = inputs(16)
    with torch.inference_mode():
        memory = ours.remember(video, keywords)
        ours.classifier.bias[2] = -30.0  # sentences of full length, as a trained model's longest ones
        cached, plain = alternating(
            lambda: beam_search(CachedDecoder(ours, memory), 16, beam=5, max_words=20),
            lambda: beam_search(UncachedDecoder(ours, memory), 16, beam=5, max_words=20),
            options.rounds,
        )
    result |= {"cached_seconds": cached, "uncached_seconds": plain, "cache_speedup": plain / cached}
    print(
        f"beam 5, 16 videos, 20 words: cached {cached:.2f} s, without cache {plain:.2f} s: {plain / cached:.1f} times"
    )

    for name, config in (("paper size", PAPER), ("default size", ModelConfig())):
        net = CaptionModel(config, Dims(SIZES, VOCABULARY, 384, KEYWORDS)).eval()
        video, keywords, _ = inputs(64)
        start = time.perf_counter()
        generate([net], video, keywords, CaptionConfig(), length_penalty=1.0)
        each = (time.perf_counter() - start) / 64
        result[f"seconds_per_video_{name.replace(' ', '_')}"] = each
        print(f"captioning stored features, {name}: {each:.4f} s a video")
    print(json.dumps({name: round(value, 4) for name, value in result.items()}))


if __name__ == "__main__":
    main()
