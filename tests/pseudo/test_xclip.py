"""Ranking by X-CLIP, with a tiny random model from disk and a clip made here."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from fewcap.core.errors import FewcapError
from fewcap.core.types import VideoItem
from fewcap.pseudo.xclip import XClipRanker


@pytest.fixture
def clip(tmp_path: Path) -> Path:
    import av

    path = tmp_path / "clip.mp4"
    with av.open(str(path), "w") as container:
        stream = container.add_stream("mpeg4", rate=8)
        stream.width, stream.height, stream.pix_fmt = 48, 32, "yuv420p"
        for number in range(12):
            picture = np.full((32, 48, 3), number * 20, dtype=np.uint8)
            for packet in stream.encode(av.VideoFrame.from_ndarray(picture, format="rgb24")):
                container.mux(packet)
        for packet in stream.encode():
            container.mux(packet)
    return path


@pytest.fixture
def xclip(tmp_path: Path) -> Path:
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast, XCLIPConfig, XCLIPModel

    sizes = {"hidden_size": 16, "intermediate_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2}
    vision = {**sizes, "image_size": 16, "patch_size": 8, "num_frames": 4, "mit_hidden_size": 16}
    vision |= {"mit_intermediate_size": 16, "mit_num_hidden_layers": 1, "mit_num_attention_heads": 2}
    text = {**sizes, "vocab_size": 12, "max_position_embeddings": 16, "eos_token_id": 1, "bos_token_id": 0}
    torch.manual_seed(0)
    config = XCLIPConfig(text_config=text, vision_config=vision, projection_dim=16, prompt_num_attention_heads=2)
    XCLIPModel(config).save_pretrained(tmp_path / "xclip")
    vocabulary = {word: i for i, word in enumerate(["<s>", "</s>", "<pad>", "a", "man", "dog", "runs", "<unk>"])}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    fast = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, unk_token="<unk>", pad_token="<pad>", eos_token="</s>", model_max_length=16
    )
    fast.save_pretrained(tmp_path / "xclip")
    return tmp_path / "xclip"


def test_cosines_for_what_can_be_seen(xclip: Path, clip: Path) -> None:
    items = [
        VideoItem("seen", "train", clip, ("a man",)),
        VideoItem("gone", "train", clip.with_name("gone.mp4"), ("a man",)),
        VideoItem("features", "train", None, ("a man",)),
    ]
    ranker = XClipRanker.load(str(xclip), items)
    texts = ["a man runs", "a dog", "a dog"]
    scores = ranker.scores({item.id: texts for item in items})
    assert list(scores) == ["seen"]
    assert np.all(np.abs(scores["seen"]) <= 1 + 1e-5)
    assert scores["seen"][1] == pytest.approx(scores["seen"][2])
    assert scores["seen"][0] != pytest.approx(scores["seen"][1])


def test_what_is_missing_is_said_first(xclip: Path, clip: Path) -> None:
    with pytest.raises(FewcapError, match="no X-CLIP can be had"):
        XClipRanker.load(str(xclip / "nothing"), [VideoItem("v", "train", clip, ())])
    with pytest.raises(FewcapError, match="features only"):
        XClipRanker.load(str(xclip), [VideoItem("v", "train", None, ())])
