"""The captioner of section 3.3, whole: video encoder, keyword refiner, sentence decoder.

Read it beside the paper, top to bottom. Sizes in the comments:

    B  videos of a batch          N  appearance-motion vectors      d  width
    S  sentences (or beams) each  O  object vectors                 V  words of the vocabulary
    M  = B·S rows of words        K  keywords                       T  words of a sentence

Rows of the same video are neighbours, so M rows fold into B longer rows wherever they look at the video: its keys and
values are computed once and never copied. True in a mask marks what is real; padding never changes an output.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import dataclass, field

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from fewcap.core.config.train import ModelConfig
from fewcap.text.vocabulary import PAD

KeysValues = tuple[Tensor, Tensor]  # each [rows, heads, positions, d / heads]


@dataclass(frozen=True)
class Dims:
    """Sizes that come from the data, not from the configuration."""

    features: Mapping[str, int] = field(default_factory=dict)  # kind -> d_a, d_m, d_o
    vocabulary: int = 4
    sentence: int = 384  # of the sentence encoder
    keywords: int = 8  # N_word; matters to the parallel form only


@dataclass(frozen=True)
class VideoBatch:
    """Features of B videos, padded; a kind that does not exist is None. Appearance and motion share N rows."""

    appearance: Tensor | None = None  # [B, N, d_a]
    motion: Tensor | None = None  # [B, N, d_m]
    frame_mask: Tensor | None = None  # [B, N]
    objects: Tensor | None = None  # [B, O, d_o]
    object_mask: Tensor | None = None  # [B, O]
    anchor: Tensor | None = None  # [B, d_s], where the video-text model puts the video among sentences

    def to(self, device: torch.device) -> VideoBatch:
        return VideoBatch(*(None if x is None else x.to(device) for x in vars(self).values()))


@dataclass(frozen=True)
class KeywordBatch:
    """Keywords of B videos or of M sentences, with weights that say how sure they are."""

    words: Tensor  # [M, K], PAD where there is none
    weights: Tensor  # [M, K], 0 to 1

    def to(self, device: torch.device) -> KeywordBatch:
        return KeywordBatch(self.words.to(device), self.weights.to(device))


@dataclass(frozen=True)
class Vectors:
    """Vectors and which of them are real."""

    states: Tensor  # [rows, positions, d]
    mask: Tensor  # [rows, positions]


@dataclass(frozen=True)
class Memory:
    """What the decoder looks at: V_L and the refined keywords; None where the model has no such input."""

    video: Vectors | None
    keywords: Vectors | None


@dataclass(frozen=True)
class Output:
    """Predictions for given sentences."""

    logits: Tensor  # [M, T, V], or [n, V] of the n words asked for
    video_share: Tensor  # [M, T], mean of the gate: 1 is all video, 0 is all keywords
    keyword_vector: Tensor | None  # [M, d_s], the refined keywords in the sentence encoder's space


class Attention(nn.Module):
    """MultiHead(query, key, value) of the paper; key and value always come from the same source."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        d = config.width
        self.heads = config.heads
        self.query = nn.Linear(d, d)
        self.key_value = nn.Linear(d, 2 * d)
        self.output = nn.Linear(d, d)

    def keys_values(self, source: Tensor) -> KeysValues:
        """Projects [rows, positions, d] once, for any number of queries."""
        rows, positions, d = source.shape
        both = self.key_value(source).view(rows, positions, 2, self.heads, d // self.heads)
        keys, values = both.permute(2, 0, 3, 1, 4)
        return keys, values

    def forward(
        self, x: Tensor, keys_values: KeysValues, mask: Tensor | None = None, *, causal: bool = False
    ) -> Tensor:
        """x [rows, positions, d] attends to keys and values of rows / S rows; mask [rows / S, 1, 1 or q, positions]."""
        keys, values = keys_values
        rows, positions, d = x.shape
        folded = self.query(x).view(keys.shape[0], -1, self.heads, d // self.heads).transpose(1, 2)  # [B, h, S·T, d/h]
        # Processors compute this one in bfloat16 four times as slowly as in float32.
        exact = x.device.type == "cpu"
        with torch.autocast("cpu", enabled=False) if exact else nullcontext():
            if exact:
                folded, keys, values = folded.float(), keys.float(), values.float()
            attended = F.scaled_dot_product_attention(folded, keys, values, mask, is_causal=causal)
        return self.output(attended.transpose(1, 2).reshape(rows, positions, d))


class FeedForward(nn.Sequential):
    """FFN: two layers."""

    def __init__(self, config: ModelConfig) -> None:
        inner = config.expansion * config.width
        super().__init__(
            nn.Linear(config.width, inner),
            nn.ReLU(),
            nn.Dropout(config.dropout),
            nn.Linear(inner, config.width),
        )


class SelfBlock(nn.Module):
    """Equation 3: self-attention and a feed-forward network, each with residual and LayerNorm."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        d = config.width
        self.attention = Attention(config)
        self.attention_norm = nn.LayerNorm(d)
        self.feed_forward = FeedForward(config)
        self.feed_forward_norm = nn.LayerNorm(d)
        self.dropout = nn.Dropout(config.dropout)

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        attended = self.attention(x, self.attention.keys_values(x), _over_keys(mask))
        x = self.attention_norm(x + self.dropout(attended))
        return self.feed_forward_norm(x + self.dropout(self.feed_forward(x)))


class CrossBlock(nn.Module):
    """Equations 4 and 5: self-attention, attention to a second source, feed-forward network."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        d = config.width
        self.attention = Attention(config)
        self.attention_norm = nn.LayerNorm(d)
        self.cross = Attention(config)
        self.cross_norm = nn.LayerNorm(d)
        self.feed_forward = FeedForward(config)
        self.feed_forward_norm = nn.LayerNorm(d)
        self.dropout = nn.Dropout(config.dropout)

    def forward(self, x: Tensor, mask: Tensor, source: Vectors | None) -> Tensor:
        """Without a source (no objects, or text without video) the second attention is left out."""
        attended = self.attention(x, self.attention.keys_values(x), _over_keys(mask))
        x = self.attention_norm(x + self.dropout(attended))
        if source is not None:
            attended = self.cross(x, self.cross.keys_values(source.states), _over_keys(source.mask))
            x = self.cross_norm(x + self.dropout(attended))
        return self.feed_forward_norm(x + self.dropout(self.feed_forward(x)))


class Reduction(nn.Module):
    """Fixed principal components of one kind of features: a few hundred videos can not train thousands of channels."""

    centre: Tensor  # [d_in]
    basis: Tensor  # [d_in, components]

    def __init__(self, size: int, components: int) -> None:
        super().__init__()
        self.register_buffer("centre", torch.zeros(size))
        self.register_buffer("basis", torch.eye(size, components))

    def forward(self, x: Tensor) -> Tensor:
        return (_standardised(x) - self.centre) @ self.basis

    @torch.no_grad()
    def fit(self, rows: Tensor) -> None:
        """From vectors [n, d_in] of the training videos; the components' mean variance becomes 1."""
        x = _standardised(rows)
        self.centre.copy_(x.mean(0))
        x = (x - self.centre).double()
        count = self.basis.shape[1]
        values, vectors = torch.linalg.eigh(x.T @ x / len(x))  # ascending
        largest = vectors[:, -count:].flip(1)
        largest = largest * torch.where(largest.sum(0) < 0, -1.0, 1.0)  # the sign is free: fix it
        self.basis.copy_(largest / values[-count:].mean().clamp(min=1e-12).sqrt())


class VideoEncoder(nn.Module):
    """Appearance and motion, concatenated and projected, joined with objects (equations 3 and 4)."""

    def __init__(self, config: ModelConfig, dims: Dims) -> None:
        super().__init__()
        d, sizes = config.width, dict(dims.features)
        reduced = {kind: size for kind, size in sizes.items() if config.components and size > config.components}
        self.reductions = nn.ModuleDict({kind: Reduction(size, config.components) for kind, size in reduced.items()})
        sizes |= dict.fromkeys(reduced, config.components)
        frame_kinds = [kind for kind in ("appearance", "motion") if kind in sizes]
        objects_apart = "objects" in sizes and (config.object_joint or not frame_kinds)
        channels = sum(sizes[kind] for kind in frame_kinds)
        if "objects" in sizes and not objects_apart:
            channels += sizes["objects"]  # the vanilla encoder concatenates objects along the channels
        self.frame_projection = nn.Linear(channels, d) if frame_kinds else None
        self.object_projection = nn.Linear(sizes["objects"], d) if objects_apart else None
        self.anchor_projection = nn.Linear(dims.sentence, d) if config.anchor else None
        self.frame_position = nn.Parameter(torch.zeros(config.frames, d)) if frame_kinds else None
        blocks = config.video_blocks if config.object_joint else 0
        self.object_blocks = nn.ModuleList(SelfBlock(config) for _ in range(blocks if objects_apart else 0))
        self.joint_blocks = nn.ModuleList(CrossBlock(config) for _ in range(blocks if frame_kinds else 0))
        self.dropout = nn.Dropout(config.dropout)

    def forward(self, batch: VideoBatch) -> Vectors | None:
        """V_L [B, N, d], behind the anchor as one more row; with objects as the only kind, V_L^o takes its place."""
        objects = self._objects(batch)
        seen = [objects if self.frame_projection is None else self._frames(batch, objects)]
        if self.anchor_projection is not None and batch.anchor is not None:
            anchor = self.dropout(self.anchor_projection(batch.anchor)).unsqueeze(1)  # [B, 1, d]
            seen.insert(0, Vectors(anchor, anchor.new_ones(anchor.shape[:2], dtype=torch.bool)))
        real = [part for part in seen if part is not None]
        if not real:
            return None
        return Vectors(torch.cat([part.states for part in real], 1), torch.cat([part.mask for part in real], 1))

    def _frames(self, batch: VideoBatch, objects: Vectors | None) -> Vectors | None:
        kinds = (("appearance", batch.appearance), ("motion", batch.motion))
        parts = [self._reduced(kind, x) for kind, x in kinds if x is not None]
        if not parts or batch.frame_mask is None or self.frame_projection is None or self.frame_position is None:
            return None
        if self.object_projection is None and batch.objects is not None:
            parts.append(self._reduced("objects", _stretched(batch, parts[0].shape[1])))
        frames = torch.cat(parts, -1)
        frames = frames * self.dropout(frames.new_ones(len(frames), 1, frames.shape[-1]))  # a channel in all frames
        states = self.frame_projection(frames)  # V^am [B, N, d]
        states = self.dropout(states + self.frame_position[: states.shape[1]])
        for block in self.joint_blocks:
            states = block(states, batch.frame_mask, objects)
        return Vectors(states, batch.frame_mask)

    def _reduced(self, kind: str, x: Tensor) -> Tensor:
        return self.reductions[kind](x) if kind in self.reductions else _standardised(x)

    def _objects(self, batch: VideoBatch) -> Vectors | None:
        if self.object_projection is None or batch.objects is None or batch.object_mask is None:
            return None
        states = self.dropout(self.object_projection(self._reduced("objects", batch.objects)))  # V^o [B, O, d]
        for block in self.object_blocks:
            states = block(states, batch.object_mask)
        return Vectors(states, batch.object_mask)


class KeywordRefiner(nn.Module):
    """Keywords that look at one another and at the video (equation 5)."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(
            CrossBlock(config) for _ in range(config.keyword_blocks if config.keyword_refiner else 0)
        )

    def forward(self, keywords: Vectors, video: Vectors | None) -> Vectors:
        """F^k [M, K, d] → F_{L'}^k [M, K, d]; M is a multiple of the number of videos."""
        states = keywords.states
        for block in self.blocks:
            states = block(states, keywords.mask, video)
        return Vectors(states, keywords.mask)


@dataclass
class BlockCache:
    """Keys and values of one decoder block: of the words so far, of the video and of the keywords."""

    video: KeysValues | None
    keywords: KeysValues | None
    words: KeysValues | None = None


class DecoderBlock(nn.Module):
    """Equation 6, with a masked self-attention in front when words are decoded one by one."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        d = config.width
        self.fusion = config.fusion
        self.parallel = config.decoder == "parallel"
        self.residual = config.decoder_residual and not self.parallel
        if not self.parallel:
            self.self_attention = Attention(config)
            self.self_norm = nn.LayerNorm(d)
        # The vanilla parallel decoder is a feed-forward network and a LayerNorm only.
        self.video_attention = None if self.parallel and self.fusion == "none" else Attention(config)
        self.keyword_attention = Attention(config) if self.fusion != "none" else None
        if self.fusion == "gated":
            # Over features: W_g in R^(2d x d). To the letter of the paper, over positions: R^(len_s x 2 len_s).
            self.gate = nn.Linear(2 * config.max_words, config.max_words) if self.parallel else nn.Linear(2 * d, d)
        elif self.fusion == "concatenation":
            self.join = nn.Linear(2 * d, d)
        self.feed_forward = FeedForward(config)
        self.norm = nn.LayerNorm(d)
        self.dropout = nn.Dropout(config.dropout)

    def cache(self, memory: Memory) -> BlockCache:
        """Keys and values that do not depend on the words."""
        video = keywords = None
        if memory.video is not None and self.video_attention is not None:
            video = self.video_attention.keys_values(memory.video.states)
        if memory.keywords is not None and self.keyword_attention is not None:
            keywords = self.keyword_attention.keys_values(memory.keywords.states)
        return BlockCache(video, keywords)

    def forward(self, h: Tensor, cache: BlockCache, memory: Memory) -> tuple[Tensor, Tensor]:
        """H_{l''-1} [M, T, d] → H_{l''} [M, T, d] and the gate's mean [M, T]; the words are added to the cache."""
        if not self.parallel:
            fresh = self.self_attention.keys_values(h)
            first = cache.words is None
            if cache.words is None:
                cache.words = fresh
            else:  # one more word: it may look at all before it
                cache.words = (
                    torch.cat([cache.words[0], fresh[0]], 2),
                    torch.cat([cache.words[1], fresh[1]], 2),
                )
            h = self.self_norm(h + self.dropout(self.self_attention(h, cache.words, causal=first)))
        seen = said = None
        if cache.video is not None and self.video_attention is not None and memory.video is not None:
            seen = self.video_attention(h, cache.video, _over_keys(memory.video.mask))  # H^v
        if cache.keywords is not None and self.keyword_attention is not None and memory.keywords is not None:
            said = self.keyword_attention(h, cache.keywords, _over_keys(memory.keywords.mask))  # H^k
        fused, share = self._fuse(seen, said, h)
        fused = self.dropout(fused)
        if self.residual or (seen is None and said is None):
            fused = h + fused
        return self.norm(fused + self.dropout(self.feed_forward(fused))), share

    def _fuse(self, seen: Tensor | None, said: Tensor | None, h: Tensor) -> tuple[Tensor, Tensor]:
        """Ĥ and the share of the video in it [M, T]."""
        if seen is None or said is None:  # one source only: the gate is closed to the other
            only = seen if seen is not None else said
            share = h.new_full(h.shape[:2], float(seen is not None))
            return (torch.zeros_like(h) if only is None else only), share
        if self.fusion == "concatenation":
            return self.join(torch.cat([seen, said], -1)), h.new_full(h.shape[:2], 0.5)
        if self.parallel:
            gate = torch.sigmoid(self.gate(torch.cat([seen, said], 1).transpose(1, 2))).transpose(1, 2)
        else:
            gate = torch.sigmoid(self.gate(torch.cat([seen, said], -1)))  # G [M, T, d]
        return gate * seen + (1 - gate) * said, gate.mean(-1)


@dataclass
class DecoderState:
    """A decoding under way: what the decoder looks at, and its caches."""

    memory: Memory
    blocks: list[BlockCache]
    position: int = 0

    def select(self, rows: Tensor) -> None:
        """Keeps or repeats rows of the words so far; ``rows`` [M'] must stay grouped by video."""
        for block in self.blocks:
            if block.words is not None:
                block.words = (block.words[0].index_select(0, rows), block.words[1].index_select(0, rows))


class CaptionModel(nn.Module):
    """Features and keywords in, word probabilities out (equation 7)."""

    def __init__(self, config: ModelConfig, dims: Dims) -> None:
        super().__init__()
        self.config, self.dims = config, dims
        d = config.width
        self.word_embedding = nn.Embedding(dims.vocabulary, d, padding_idx=PAD)  # FC on a one-hot word
        self.weight_direction = nn.Parameter(torch.zeros(d))  # how a keyword's weight enters its vector
        self.video_encoder = VideoEncoder(config, dims)
        if config.fusion != "none":
            self.keyword_refiner = KeywordRefiner(config)
            self.keyword_to_sentence = nn.Linear(d, dims.sentence)  # FC of the word loss
        if config.decoder == "parallel":
            rows = config.frames if {"appearance", "motion"} & set(dims.features) else config.objects
            rows += config.anchor
            self.video_positions = nn.Linear(rows, config.max_words)  # V' in R^(len_s x d)
            self.keyword_positions = nn.Linear(dims.keywords, config.max_words)  # F'^k in R^(len_s x d)
        else:
            self.word_position = nn.Parameter(torch.zeros(config.max_words + 1, d))
            self.to_words = nn.ModuleDict({"video": nn.Linear(d, d), "keywords": nn.Linear(d, d)})  # V' and F'^k
        self.blocks = nn.ModuleList(DecoderBlock(config) for _ in range(config.decoder_blocks))
        self.classifier = nn.Linear(d, dims.vocabulary)  # W_p
        self.dropout = nn.Dropout(config.dropout)
        self._initialise()

    def _initialise(self) -> None:
        for name, weight in self.named_parameters():
            if name.endswith(("position", "weight_direction", "word_embedding.weight")):
                nn.init.normal_(weight, std=self.config.width**-0.5)
            elif weight.dim() == 2:
                nn.init.xavier_uniform_(weight)
            elif name.endswith("bias"):
                nn.init.zeros_(weight)
        with torch.no_grad():
            self.word_embedding.weight[PAD] = 0
        if self.config.tie_words:
            self.classifier.weight = self.word_embedding.weight

    def remember(self, video: VideoBatch | None, keywords: KeywordBatch | None) -> Memory:
        """Encodes the video and refines the keywords."""
        seen = self.video_encoder(video) if video is not None else None
        return Memory(seen, self._refine(keywords, seen))

    def _refine(self, keywords: KeywordBatch | None, video: Vectors | None) -> Vectors | None:
        """F_{L'}^k [M, K, d]."""
        if keywords is None or self.config.fusion == "none":
            return None
        bare = self._embed(keywords.words) + keywords.weights.unsqueeze(-1) * self.weight_direction
        return self.keyword_refiner(Vectors(self.dropout(bare), keywords.words != PAD), video)

    def start(self, memory: Memory) -> DecoderState:
        """Projects the memory into the space of the sentences and prepares the caches."""
        if self.config.decoder == "parallel":
            projected = self._to_positions(memory)
        else:
            projected = Memory(
                *(
                    None if part is None else Vectors(self.to_words[name](part.states), part.mask)
                    for name, part in (("video", memory.video), ("keywords", memory.keywords))
                )
            )
        return DecoderState(projected, [block.cache(projected) for block in self.blocks])  # type: ignore[operator]

    def step(self, state: DecoderState, words: Tensor, asked: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Words [M, T] at the state's position → logits [M, T, V] of the words that follow, and video shares [M, T]."""
        end = state.position + words.shape[1]
        h = self.dropout(self._embed(words) + self.word_position[state.position : end])
        state.position = end
        return self._decode(h, state, asked)

    def forward(
        self,
        video: VideoBatch | None,
        keywords: KeywordBatch | None,
        words: Tensor,
        asked: Tensor | None = None,
        own: KeywordBatch | None = None,
    ) -> Output:
        """Teacher forcing: words [M, T] start with BOS. The parallel form ignores them and answers for len_s rows.

        ``asked`` [M, T] (or [M, len_s]) is true where the next word is wanted: the others cost half of a step.
        ``own`` [M, K] are the keywords of the sentences themselves, which the word loss is about.
        """
        memory = self.remember(video, keywords)
        state = self.start(memory)
        if self.config.decoder == "parallel":
            logits, share = self.decode_parallel(state, asked)
        else:
            logits, share = self.step(state, words, asked)
        return Output(logits, share, self.keyword_vector(self._refine(own, memory.video)))

    def decode_parallel(self, state: DecoderState, asked: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """All positions at once: logits [M, len_s, V] and video shares [M, len_s]."""
        parts = [part.states for part in (state.memory.video, state.memory.keywords) if part is not None]
        rows = max(part.shape[0] for part in parts)
        # "The input of the first block is V' and F'^k": their sum.
        h = torch.stack([part.repeat_interleave(rows // part.shape[0], 0) for part in parts]).sum(0)
        return self._decode(self.dropout(h), state, asked)

    def keyword_vector(self, refined: Vectors | None) -> Tensor | None:
        """f^k: a fully-connected layer and the maximum over the keywords [M, d_s]; rows without keywords are zero."""
        if refined is None:
            return None
        projected = self.keyword_to_sentence(refined.states)
        masked = projected.masked_fill(~refined.mask.unsqueeze(-1), float("-inf")).amax(1)
        return masked.masked_fill(masked == float("-inf"), 0.0)

    def _decode(self, h: Tensor, state: DecoderState, asked: Tensor | None) -> tuple[Tensor, Tensor]:
        shares = []
        for block, cache in zip(self.blocks, state.blocks, strict=True):
            h, share = block(h, cache, state.memory)
            shares.append(share)
        return self.classifier(h if asked is None else h[asked]), torch.stack(shares).mean(0)

    def _embed(self, words: Tensor) -> Tensor:
        return self.word_embedding(words) * self.config.width**0.5

    def _to_positions(self, memory: Memory) -> Memory:
        """V' and F'^k of the paper's text: len_s rows, each a mixture of all vectors."""
        parts: list[Vectors | None] = []
        for layer, part in ((self.video_positions, memory.video), (self.keyword_positions, memory.keywords)):
            if part is None:
                parts.append(None)
                continue
            real = part.states * part.mask.unsqueeze(-1)
            real = F.pad(real, (0, 0, 0, layer.in_features - real.shape[1]))
            states = layer(real.transpose(1, 2)).transpose(1, 2)  # [rows, len_s, d]
            parts.append(Vectors(states, states.new_ones(states.shape[:2], dtype=torch.bool)))
        return Memory(*parts)


def _over_keys(mask: Tensor) -> Tensor:
    """[rows, positions] → [rows, 1, 1, positions], for every head and query."""
    return mask[:, None, None, :]


def _standardised(x: Tensor) -> Tensor:
    """Each vector gets mean 0 and variance 1: backbones differ in scale by orders of magnitude."""
    return F.layer_norm(x.float(), x.shape[-1:])


def _stretched(batch: VideoBatch, rows: int) -> Tensor:
    """Objects, evenly brought to as many rows as there are frames [B, N, d_o], for concatenation along channels."""
    if batch.objects is None or batch.object_mask is None or batch.frame_mask is None:
        raise ValueError("concatenation along channels needs objects and frames with their masks")
    objects = batch.object_mask.sum(1, keepdim=True)  # [B, 1]
    frames = batch.frame_mask.sum(1, keepdim=True).clamp(min=1)  # [B, 1]
    index = torch.arange(rows, device=objects.device) * objects // frames  # [B, N]
    index = index.clamp(max=batch.objects.shape[1] - 1)
    return batch.objects.gather(1, index.unsqueeze(-1).expand(-1, -1, batch.objects.shape[-1]))
