"""Each block against a slow literal transcription of its equation; masks, folding, caches and switches."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from fewcap.captioning.model import (
    Attention,
    CaptionModel,
    CrossBlock,
    DecoderBlock,
    Dims,
    KeywordBatch,
    Memory,
    Reduction,
    SelfBlock,
    Vectors,
    VideoBatch,
)
from fewcap.core.config.train import ModelConfig

D, HEADS, WORDS = 16, 4, 30
SMALL: dict[str, Any] = {
    "components": 0,
    "width": D, "heads": HEADS, "dropout": 0.0, "frames": 6, "objects": 5, "max_words": 7, "decoder_blocks": 2,
}  # fmt: skip
SIZES = {"appearance": 10, "motion": 6, "objects": 8}
DIMS = Dims(SIZES, WORDS, 12, 4)


def config(**changes: Any) -> ModelConfig:
    return ModelConfig(**{**SMALL, **changes})


def model(seed: int = 0, sizes: dict[str, int] | None = None, **changes: Any) -> CaptionModel:
    torch.manual_seed(seed)
    dims = Dims(SIZES if sizes is None else sizes, WORDS, 12, 4)
    return CaptionModel(config(**changes), dims).eval()


def inputs(videos: int = 2, seed: int = 1) -> tuple[VideoBatch, KeywordBatch, Tensor]:
    g = torch.Generator().manual_seed(seed)
    frame_mask = torch.tensor([[1, 1, 1, 1, 1, 1], [1, 1, 1, 1, 0, 0]], dtype=torch.bool)[:videos]
    object_mask = torch.tensor([[1, 1, 1, 0, 0], [1, 1, 1, 1, 1]], dtype=torch.bool)[:videos]
    video = VideoBatch(
        torch.rand(videos, 6, 10, generator=g),
        torch.rand(videos, 6, 6, generator=g),
        frame_mask,
        torch.rand(videos, 5, 8, generator=g),
        object_mask,
        torch.randn(videos, 12, generator=g),
    )
    words = torch.tensor([[4, 5, 6, 0], [7, 8, 0, 0]])[:videos]
    keywords = KeywordBatch(words, torch.rand(videos, 4, generator=g) * (words > 0))
    return video, keywords, torch.randint(4, WORDS, (videos, 5), generator=g)


# The equations, written out.


def multi_head(layer: Attention, query: Tensor, source: Tensor, allowed: Tensor) -> Tensor:
    """MultiHead(Q, K, V) of one row, head by head, query by query: query [q, d], source [s, d], allowed [q, s]."""
    d = query.shape[-1]
    q = query @ layer.query.weight.T + layer.query.bias
    kv = source @ layer.key_value.weight.T + layer.key_value.bias
    k, v = kv[:, :d], kv[:, d:]
    size = d // layer.heads
    out = torch.zeros_like(query)
    for head in range(layer.heads):
        part = slice(head * size, (head + 1) * size)
        for i in range(len(query)):
            scores = [float(q[i, part] @ k[j, part]) / math.sqrt(size) for j in range(len(source)) if allowed[i, j]]
            values = [v[j, part] for j in range(len(source)) if allowed[i, j]]
            top = max(scores)
            weights = [math.exp(s - top) for s in scores]
            out[i, part] = sum((w / sum(weights)) * value for w, value in zip(weights, values, strict=True))
    return out @ layer.output.weight.T + layer.output.bias


def layer_norm(layer: nn.LayerNorm, x: Tensor) -> Tensor:
    mean = x.mean(-1, keepdim=True)
    variance = ((x - mean) ** 2).mean(-1, keepdim=True)
    return (x - mean) / torch.sqrt(variance + layer.eps) * layer.weight + layer.bias


def ffn(layer: nn.Sequential, x: Tensor) -> Tensor:
    first, last = layer[0], layer[-1]
    return torch.clamp(x @ first.weight.T + first.bias, min=0) @ last.weight.T + last.bias


@pytest.fixture
def rows() -> tuple[Tensor, Tensor, Tensor, Tensor]:
    g = torch.Generator().manual_seed(3)
    x, source = torch.randn(1, 5, D, generator=g), torch.randn(1, 4, D, generator=g)
    return x, torch.tensor([[True] * 4 + [False]]), source, torch.tensor([[True, False, True, True]])


@torch.no_grad()
def test_object_transformer_block_is_equation_3(rows: tuple[Tensor, ...]) -> None:
    x, mask, _, _ = rows
    block = SelfBlock(config()).eval()
    v = x[0]
    hat = layer_norm(block.attention_norm, v + multi_head(block.attention, v, v, mask.expand(5, 5)))
    expected = layer_norm(block.feed_forward_norm, hat + ffn(block.feed_forward, hat))
    torch.testing.assert_close(block(x, mask)[0], expected, atol=1e-5, rtol=1e-4)


@torch.no_grad()
def test_joint_and_refiner_blocks_are_equations_4_and_5(rows: tuple[Tensor, ...]) -> None:
    x, mask, source, source_mask = rows
    block = CrossBlock(config()).eval()
    v, o = x[0], source[0]
    hat = layer_norm(block.attention_norm, v + multi_head(block.attention, v, v, mask.expand(5, 5)))
    tilde = layer_norm(block.cross_norm, hat + multi_head(block.cross, hat, o, source_mask.expand(5, 4)))
    expected = layer_norm(block.feed_forward_norm, tilde + ffn(block.feed_forward, tilde))
    torch.testing.assert_close(block(x, mask, Vectors(source, source_mask))[0], expected, atol=1e-5, rtol=1e-4)


@torch.no_grad()
@pytest.mark.parametrize("fusion", ["gated", "concatenation", "none"])
@pytest.mark.parametrize("residual", [True, False])
def test_autoregressive_decoder_block_is_equation_6(rows: tuple[Tensor, ...], fusion: str, residual: bool) -> None:
    h, _, video, video_mask = rows
    keywords, keyword_mask = video.flip(1) * 2, torch.tensor([[True, True, False, False]])
    block = DecoderBlock(config(fusion=fusion, decoder_residual=residual)).eval()
    memory = Memory(Vectors(video, video_mask), Vectors(keywords, keyword_mask))
    found, share = block(h, block.cache(memory), memory)

    x = h[0]
    x = layer_norm(block.self_norm, x + multi_head(block.self_attention, x, x, torch.ones(5, 5).tril().bool()))
    seen = multi_head(block.video_attention, x, video[0], video_mask.expand(5, 4))
    if fusion == "none":
        fused, gate = seen, torch.ones(5, D)
    else:
        said = multi_head(block.keyword_attention, x, keywords[0], keyword_mask.expand(5, 4))
        both = torch.cat([seen, said], -1)
        if fusion == "gated":
            gate = 1 / (1 + torch.exp(-(both @ block.gate.weight.T + block.gate.bias)))
            fused = gate * seen + (1 - gate) * said
        else:
            fused, gate = both @ block.join.weight.T + block.join.bias, torch.full((5, D), 0.5)
    fused = fused + x if residual else fused
    expected = layer_norm(block.norm, fused + ffn(block.feed_forward, fused))
    torch.testing.assert_close(found[0], expected, atol=1e-5, rtol=1e-4)
    torch.testing.assert_close(share[0], gate.mean(-1), atol=1e-5, rtol=1e-4)


@torch.no_grad()
def test_parallel_gate_mixes_positions_to_the_letter_of_the_paper() -> None:
    g = torch.Generator().manual_seed(5)
    length = 7
    h, video, keywords = (torch.randn(1, length, D, generator=g) for _ in range(3))
    block = DecoderBlock(config(decoder="parallel")).eval()
    everything = torch.ones(1, length, dtype=torch.bool)
    memory = Memory(Vectors(video, everything), Vectors(keywords, everything))
    found, _ = block(h, block.cache(memory), memory)
    allowed = everything.expand(length, length)
    seen = multi_head(block.video_attention, h[0], video[0], allowed)
    said = multi_head(block.keyword_attention, h[0], keywords[0], allowed)
    stacked = torch.cat([seen, said], 0)  # [2 len_s, d]
    gate = torch.sigmoid(block.gate.weight @ stacked + block.gate.bias[:, None])  # W_g in R^(len_s x 2 len_s)
    fused = gate * seen + (1 - gate) * said
    expected = layer_norm(block.norm, fused + ffn(block.feed_forward, fused))
    torch.testing.assert_close(found[0], expected, atol=1e-5, rtol=1e-4)


@torch.no_grad()
def test_word_probabilities_are_equation_7() -> None:
    net = model(decoder_blocks=1)
    video, keywords, words = inputs()
    state = net.start(net.remember(video, keywords))
    h = net.word_embedding.weight[words] * math.sqrt(D) + net.word_position[: words.shape[1]]
    h, _ = net.blocks[0](h, state.blocks[0], state.memory)
    expected = torch.softmax(h @ net.word_embedding.weight.T + net.classifier.bias, -1)
    torch.testing.assert_close(net(video, keywords, words).logits.softmax(-1), expected)


@torch.no_grad()
@pytest.mark.parametrize("changes", [{}, {"object_joint": False}, {"decoder": "parallel"}, {"keyword_refiner": False}])
def test_padding_never_changes_an_output(changes: dict[str, Any]) -> None:
    """The second video alone, without its padding and with garbage in the padding, gives the same logits."""
    net = model(**changes)
    video, keywords, words = inputs()
    both = net(video, keywords, words)
    alone = VideoBatch(
        video.appearance[1:, :4], video.motion[1:, :4], video.frame_mask[1:, :4], video.objects[1:],
        video.object_mask[1:], video.anchor[1:],
    )  # fmt: skip
    cut = KeywordBatch(keywords.words[1:, :2], keywords.weights[1:, :2])
    torch.testing.assert_close(net(alone, cut, words[1:]).logits, both.logits[1:], atol=1e-5, rtol=1e-4)
    dirty = VideoBatch(
        video.appearance.masked_fill(~video.frame_mask[..., None], 9e3), video.motion, video.frame_mask,
        video.objects.masked_fill(~video.object_mask[..., None], -7.0), video.object_mask, video.anchor,
    )  # fmt: skip
    torch.testing.assert_close(net(dirty, keywords, words).logits, both.logits, atol=1e-5, rtol=1e-4)


@torch.no_grad()
def test_no_keywords_at_all_is_a_number() -> None:
    net = model()
    video, keywords, words = inputs()
    none = KeywordBatch(torch.zeros_like(keywords.words), torch.zeros_like(keywords.weights))
    output = net(video, none, words, own=none)
    assert output.logits.isfinite().all()
    assert output.keyword_vector is not None
    assert output.keyword_vector.abs().sum() == 0


@torch.no_grad()
def test_sentences_of_a_video_share_it_without_copies() -> None:
    net = model()
    video, keywords, words = inputs()
    three = torch.cat([words[:1], words[:1].flip(1), words[:1] // 2 + 2, words[1:], words[1:].flip(1), words[1:]])
    repeated = VideoBatch(*(x.repeat_interleave(3, 0) for x in vars(video).values()))
    own = KeywordBatch(keywords.words.repeat_interleave(3, 0), keywords.weights.repeat_interleave(3, 0))
    torch.testing.assert_close(net(video, own, three).logits, net(repeated, own, three).logits, atol=1e-5, rtol=1e-4)
    shared_keywords = net(video, keywords, three).logits
    torch.testing.assert_close(shared_keywords, net(video, own, three).logits, atol=1e-5, rtol=1e-4)


@torch.no_grad()
def test_a_word_sees_no_later_word() -> None:
    net = model()
    video, keywords, words = inputs()
    changed = words.clone()
    changed[:, 3] = (changed[:, 3] - 4 + 1) % (WORDS - 4) + 4
    before, after = net(video, keywords, words).logits, net(video, keywords, changed).logits
    torch.testing.assert_close(before[:, :3], after[:, :3])
    assert not torch.allclose(before[:, 3:], after[:, 3:])


@torch.no_grad()
def test_step_by_step_with_the_cache_is_the_whole_sentence_at_once() -> None:
    net = model()
    video, keywords, words = inputs()
    whole = net(video, keywords, words)
    state = net.start(net.remember(video, keywords))
    for t in range(words.shape[1]):
        logits, share = net.step(state, words[:, t : t + 1])
        torch.testing.assert_close(logits[:, 0], whole.logits[:, t], atol=1e-5, rtol=1e-4)
        torch.testing.assert_close(share[:, 0], whole.video_share[:, t], atol=1e-5, rtol=1e-4)


def test_asking_for_some_words_gives_the_same_logits() -> None:
    net, (video, keywords, words) = model(), inputs()
    asked = torch.rand(words.shape, generator=torch.Generator().manual_seed(3)) < 0.5
    whole = net(video, keywords, words)
    torch.testing.assert_close(net(video, keywords, words, asked).logits, whole.logits[asked])


SWITCHES = [
    {"object_joint": False}, {"keyword_refiner": False}, {"fusion": "concatenation"}, {"fusion": "none"},
    {"decoder": "parallel"}, {"decoder_residual": False}, {"tie_words": False}, {"anchor": False},
    {"video_blocks": 2}, {"keyword_blocks": 2},
]  # fmt: skip


@torch.no_grad()
@pytest.mark.parametrize("change", SWITCHES, ids=str)
def test_every_switch_changes_the_output(change: dict[str, Any]) -> None:
    video, keywords, words = inputs()
    changed = model(**change)
    plain = model()
    shared = changed.state_dict()
    for name, weight in plain.state_dict().items():  # all that both have is equal: what differs is the switch
        if name in shared and shared[name].shape == weight.shape and not name.startswith("classifier"):
            shared[name].copy_(weight)
    assert not torch.allclose(
        plain(video, keywords, words).logits, changed(video, keywords, words).logits[:, : words.shape[1]], atol=1e-4
    )


@torch.no_grad()
@pytest.mark.parametrize(
    "kinds", [("appearance",), ("motion",), ("objects",), ("appearance", "objects"), ("appearance", "motion")]
)
@pytest.mark.parametrize("change", [{}, {"object_joint": False}, {"decoder": "parallel"}], ids=str)
def test_any_kind_of_features_may_be_missing(kinds: tuple[str, ...], change: dict[str, Any]) -> None:
    net = model(sizes={kind: SIZES[kind] for kind in kinds}, **change)
    video, keywords, words = inputs()
    frames = video.frame_mask if {"appearance", "motion"} & set(kinds) else None
    given = VideoBatch(
        video.appearance if "appearance" in kinds else None,
        video.motion if "motion" in kinds else None,
        frames,
        video.objects if "objects" in kinds else None,
        video.object_mask if "objects" in kinds else None,
    )
    logits = net(given, keywords, words).logits
    assert logits.isfinite().all()
    assert not torch.allclose(logits[0], logits[1])


@torch.no_grad()
def test_the_gate_is_closed_to_what_is_not_there() -> None:
    net = model()
    video, keywords, words = inputs()
    assert net(None, keywords, words).video_share.eq(0).all()
    assert net(video, None, words).video_share.eq(1).all()
    share = net(video, keywords, words).video_share
    assert ((share > 0) & (share < 1)).all()


@torch.no_grad()
def test_principal_components_are_those_of_the_training_vectors() -> None:
    rows = torch.randn(200, 10, generator=torch.Generator().manual_seed(0)) * torch.linspace(5, 0.1, 10)
    reduction = Reduction(10, 3)
    reduction.fit(rows)
    standard = torch.nn.functional.layer_norm(rows, (10,))
    found = reduction(rows)
    scores = (standard - standard.mean(0)) @ torch.pca_lowrank(standard, q=10, niter=8)[2][:, :3]
    scores = scores / scores.var(0, correction=0).mean().sqrt()
    torch.testing.assert_close(found.abs(), scores.abs(), atol=1e-3, rtol=1e-3)
    assert model(components=4).video_encoder.frame_projection.in_features == 8
    video, keywords, words = inputs()
    assert not torch.allclose(
        model(components=4)(video, keywords, words).logits, model()(video, keywords, words).logits, atol=1e-3
    )


@torch.no_grad()
def test_word_loss_is_about_a_sentences_own_keywords() -> None:
    net = model()
    video, keywords, words = inputs()
    other = KeywordBatch(keywords.words.flip(0), keywords.weights)
    shown, own = net(video, keywords, words, own=other), net(video, other, words, own=other)
    torch.testing.assert_close(shown.keyword_vector, own.keyword_vector)
    assert not torch.allclose(shown.logits, own.logits)
    assert net(video, keywords, words).keyword_vector is None
    refined = net.remember(video, other).keywords
    assert refined is not None
    literal = [
        net.keyword_to_sentence(states[mask]).amax(0) for states, mask in zip(refined.states, refined.mask, strict=True)
    ]
    torch.testing.assert_close(own.keyword_vector, torch.stack(literal))


def test_keyword_weights_matter() -> None:
    net = model()
    video, keywords, words = inputs()
    other = KeywordBatch(keywords.words, keywords.weights * 0.1)
    assert not torch.allclose(net(video, keywords, words).logits, net(video, other, words).logits)


def test_every_parameter_learns() -> None:
    net = model(fusion="gated").train()
    video, keywords, words = inputs()
    output = net(video, keywords, words, own=keywords)
    assert output.keyword_vector is not None
    (output.logits.square().mean() + output.keyword_vector.square().mean()).backward()
    assert [name for name, p in net.named_parameters() if p.grad is None] == []
