"""Training the language models: on a small corpus, from a checkpoint on disk, stopped and resumed."""

from __future__ import annotations

import gzip
import random
from pathlib import Path
from typing import Any

import pytest
import torch

from fewcap.core.config.label import EditConfig, ModelsConfig
from fewcap.core.errors import FewcapError
from fewcap.pseudo import fit as fitting
from fewcap.pseudo.codec import Codec
from fewcap.pseudo.corpus import batches_of_equal_length, read_corpus
from fewcap.pseudo.editor import Editor, Seed
from fewcap.pseudo.fit import Schedule, fit
from fewcap.pseudo.language import LanguageModels
from fewcap.pseudo.training import train_models, train_stage

TINY = {"layers": 1, "width": 16, "heads": 2, "inner": 16, "seen": 1, "rate": 1e-2, "tokens_per_batch": 256}
SHORT = {"forward_epochs": 1, "backward_epochs": 1, "masked_epochs": 1, "classifier_epochs": 1}


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    generator = random.Random(0)
    path = tmp_path_factory.mktemp("corpus") / "captions.txt.gz"
    lines = {
        f"{generator.choice(['A', 'The'])} {generator.choice(['red', 'big', 'small', 'young', 'old'])} "
        f"{generator.choice(['man', 'dog', 'girl', 'cat'])} is {generator.choice(['eating', 'running', 'playing'])} "
        f"{generator.choice(['in', 'near', 'behind'])} the {generator.choice(['park', 'house', 'street', 'car'])}."
        for _ in range(300)
    }
    with gzip.open(path, "wt") as handle:
        handle.write("\n".join(sorted(lines)) + "\n")
    return path


def test_train_save_load_edit(corpus: Path, tmp_path: Path) -> None:
    config = ModelsConfig(corpus=(corpus,), **TINY, **{**SHORT, "forward_epochs": 10})
    card = train_stage(tmp_path / "models", config, seed=0).counts["card"]
    again = LanguageModels.load(str(tmp_path / "models"))
    assert card["forward"]["held_out_perplexity"] < 0.5 * len(again.codec)
    assert set(card["classifier"]) == {"steps", "copy", "replace", "insert", "delete"}
    assert not (tmp_path / "models" / "scratch").exists()
    [draft] = Editor(again, EditConfig(), 1).drafts([Seed(("man", "eating"), "key")])
    assert {"man", "eating"} <= set(draft.words)
    longer = config.model_copy(update={"base": str(tmp_path / "models"), "forward_epochs": 1.0})
    further = train_models(longer, tmp_path / "further", scratch=tmp_path / "scratch2")
    assert further.codec.tokens == again.codec.tokens


def test_from_a_published_kind_of_checkpoint(corpus: Path, tmp_path: Path) -> None:
    """An XLNet with sentence pieces, from a folder: keywords of several pieces stay whole."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast, XLNetConfig, XLNetLMHeadModel

    pieces = ["<unk>", "<s>", "</s>", "<pad>", "<mask>", "▁a", "▁the", "▁man", "▁dog", "▁is", "▁big", "▁red", "▁in"]
    letters = [chr(c) for c in range(ord("a"), ord("z") + 1)]
    vocabulary = [(piece, -2.0) for piece in pieces] + [("▁", -4.0)] + [(letter, -5.0) for letter in letters]
    tokenizer = Tokenizer(models.Unigram(vocabulary, unk_id=0, byte_fallback=False))
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    tokenizer.decoder = decoders.Metaspace()
    names = {"unk_token": "<unk>", "bos_token": "<s>", "eos_token": "</s>", "pad_token": "<pad>"}
    fast = PreTrainedTokenizerFast(tokenizer_object=tokenizer, mask_token="<mask>", **names)
    fast.save_pretrained(tmp_path / "xlnet")
    sizes = {"d_model": 16, "n_layer": 1, "n_head": 2, "d_inner": 16}
    XLNetLMHeadModel(XLNetConfig(vocab_size=len(vocabulary), **sizes)).save_pretrained(tmp_path / "xlnet")

    config = ModelsConfig(corpus=(corpus,), base=str(tmp_path / "xlnet"), longest=8, tokens_per_batch=512, **SHORT)
    train_models(config, tmp_path / "models", scratch=tmp_path / "scratch")
    loaded = LanguageModels.load(str(tmp_path / "models"))
    assert len(loaded.codec.pieces("playing")) > 1
    editor = Editor(loaded, EditConfig(stop=0.05, steps=12), 8)
    for draft in editor.drafts([Seed(("man", "playing"), f"key{i}") for i in range(8)]):
        rest = iter(draft.words)
        assert all(word in rest for word in ("man", "playing"))
        assert {word for word in draft.words if word != "playing"} <= {p.removeprefix("▁") for p in pieces}
    missing = config.model_copy(update={"base": str(tmp_path / "nothing")})
    with pytest.raises(FewcapError, match=r"label\.training\.base"):
        train_models(missing, tmp_path / "models2", scratch=tmp_path / "scratch2")


class Regression(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.line = torch.nn.Linear(3, 1)

    def loss(self, step: int) -> torch.Tensor:
        x = torch.rand(8, 3, generator=torch.Generator().manual_seed(step))
        return (self.line(x)[:, 0] - x.sum(1)).pow(2).mean()


def test_stopped_and_resumed_ends_with_the_same_weights(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    schedule = Schedule(60, rate=0.05, warmup=5, check_every=10, half=False)
    whole = Regression()
    expected = fit(whole, whole.loss, lambda: float(whole.loss(-1)), schedule, tmp_path / "whole", "training")

    class StopError(Exception):
        pass

    torn = Regression()

    def dies(step: int) -> torch.Tensor:
        if step == 37:
            raise StopError
        return torn.loss(step)

    with pytest.raises(StopError):
        fit(torn, dies, lambda: float(torn.loss(-1)), schedule, tmp_path / "torn", "training")
    again = Regression()
    result = fit(again, again.loss, lambda: float(again.loss(-1)), schedule, tmp_path / "torn", "training")
    assert result == expected
    assert torch.equal(again.line.weight, whole.line.weight)


def test_early_stopping_keeps_the_best_weights(tmp_path: Path) -> None:
    network = Regression()
    losses = iter([3.0, 1.0, 2.0, 2.5, 4.0, 5.0])
    weights: list[torch.Tensor] = []

    def held_out() -> float:
        weights.append(network.line.weight.detach().clone())
        return next(losses)

    schedule = Schedule(60, warmup=5, check_every=10, patience=2, half=False)
    result = fit(network, network.loss, held_out, schedule, tmp_path, "training")
    assert (result.steps, result.loss) == (40, 1.0)
    assert torch.equal(network.line.weight, weights[1])


def test_the_learning_rate_rises_and_falls() -> None:
    schedule = Schedule(100, rate=1.0, warmup=10)
    rates = [schedule.rate_at(step) for step in range(100)]
    assert rates.index(max(rates)) in (9, 10)
    assert rates[0] == pytest.approx(0.1)
    assert rates[-1] < 0.02
    assert fitting.Fitted(1, 0.5, [0.5]).loss == 0.5


def test_saved_weights_come_back(tiny: LanguageModels, tiny_folder: Path) -> None:
    again = LanguageModels.load(str(tiny_folder))
    # half precision on disk, a byte for the weights of the masked model
    for role, near in {"forward": 1e-3, "backward": 1e-3, "masked": 0.01, "classifier": 1e-3}.items():
        for kept, loaded in zip(getattr(tiny, role).parameters(), getattr(again, role).parameters(), strict=True):
            torch.testing.assert_close(kept, loaded, atol=near, rtol=1e-3)


def test_shared_positions_change_nothing(tiny_folder: Path) -> None:
    network = LanguageModels.load(str(tiny_folder)).forward
    ids = torch.randint(5, 30, (9, 7), generator=torch.Generator().manual_seed(0))
    shared = network(input_ids=ids, use_mems=False).logits
    del network.transformer.relative_positional_encoding  # transformers' own again
    # Not to the bit: on some processors the order of a sum hangs on the shape.
    torch.testing.assert_close(shared, network(input_ids=ids, use_mems=False).logits, atol=1e-4, rtol=1e-4)


def test_no_corpus_no_training(tmp_path: Path) -> None:
    with pytest.raises(FewcapError, match=r"label\.training\.corpus is empty"):
        train_stage(tmp_path / "models", ModelsConfig(), seed=0)
    with pytest.raises(FewcapError, match="no such corpus file"):
        train_stage(tmp_path / "models", ModelsConfig(corpus=(tmp_path / "none.txt",)), seed=0)


@pytest.mark.parametrize("text", ["", "one\ntwo\n", "\n\n"])
def test_an_empty_corpus_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "corpus.txt"
    path.write_text(text)
    with pytest.raises(FewcapError, match="too few to train"):
        read_corpus([path])
    with pytest.raises(FewcapError, match="no file"):
        read_corpus([])
    with pytest.raises(FewcapError, match="no such corpus file"):
        read_corpus([tmp_path / "none.txt"])


def test_a_damaged_corpus_is_named(tmp_path: Path) -> None:
    (tmp_path / "bad.txt.gz").write_bytes(b"not gzip")
    (tmp_path / "latin.txt").write_bytes("ein Bär".encode("latin-1"))
    with pytest.raises(FewcapError, match=r"bad\.txt\.gz"):
        read_corpus([tmp_path / "bad.txt.gz"])
    with pytest.raises(FewcapError, match="UTF-8"):
        read_corpus([tmp_path / "latin.txt"])


def test_held_out_sentences_never_train(corpus: Path) -> None:
    read = read_corpus([corpus, corpus])
    assert not set(read.train) & set(read.held_out)
    assert len(set(read.train)) == len(read.train)
    assert all(word == word.lower() for sentence in read.train for word in sentence)


def test_batches_hold_every_sentence_once_and_one_length() -> None:
    sentences: list[list[int]] = [[0] * (3 + n % 5) for n in range(97)]
    batches = batches_of_equal_length(sentences, 20, seed=1)
    assert sorted(i for batch in batches for i in batch) == list(range(97))
    assert all(len({len(sentences[i]) for i in batch}) == 1 for batch in batches)
    assert batches == batches_of_equal_length(sentences, 20, seed=1)
    assert batches != batches_of_equal_length(sentences, 20, seed=2)


def test_words_the_vocabulary_lacks_are_unknown(tmp_path: Path) -> None:
    codec = Codec.of_words(["a", "man"])
    assert codec.encode(["a", "ardilla"]) == [codec.bos, 5, codec.unk, codec.eos]
    codec.save(tmp_path)
    assert Codec.load(tmp_path).tokens == codec.tokens
    proposable: list[Any] = [codec.word(i) for i in codec.proposable()]
    assert proposable == ["a", "man"]
