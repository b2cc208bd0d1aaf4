from __future__ import annotations

import numpy as np
import pytest

from fewcap.core.errors import FewcapError
from fewcap.text.embed import RememberingEncoder, SentenceEncoder


@pytest.fixture(scope="module")
def encoder() -> SentenceEncoder:
    return SentenceEncoder.load()


def test_embeddings_are_unit_vectors_in_the_order_given(encoder: SentenceEncoder) -> None:
    sentences = ["a man plays a guitar", "cook", "a man plays a guitar", "a very long sentence about a small brown dog"]
    found = encoder.encode(sentences, batch=2)
    assert found.shape == (4, encoder.dim)
    assert found.dtype == np.float32
    np.testing.assert_allclose(np.linalg.norm(found, axis=1), 1, atol=1e-5)
    np.testing.assert_array_equal(found[0], found[2])
    np.testing.assert_allclose(encoder.encode(sentences[3:])[0], found[3], atol=1e-5)


def test_padding_does_not_matter_and_meaning_does(encoder: SentenceEncoder) -> None:
    found = encoder.encode(["a man plays a guitar", "someone is playing an instrument", "a cat sleeps on a sofa"])
    assert found[0] @ found[1] > found[0] @ found[2] + 0.2


def test_equal_to_sentence_transformers(encoder: SentenceEncoder) -> None:
    """Mean pooling by hand is what the published library does."""
    library = pytest.importorskip("sentence_transformers")
    from fewcap.text.embed import _minilm_folder

    sentences = ["a woman is slicing a cucumber", "dogs run"]
    expected = library.SentenceTransformer(str(_minilm_folder()), device="cpu").encode(sentences)
    np.testing.assert_allclose(encoder.encode(sentences), expected, atol=1e-4)


def test_nothing_gives_nothing(encoder: SentenceEncoder) -> None:
    assert encoder.encode([]).shape == (0, encoder.dim)


def test_a_sentence_that_is_remembered_is_not_embedded_again(
    encoder: SentenceEncoder, monkeypatch: pytest.MonkeyPatch
) -> None:
    remembering = RememberingEncoder(encoder)
    first = remembering.encode(["a dog runs", "a cat", "a dog runs"])
    np.testing.assert_allclose(first, encoder.encode(["a dog runs", "a cat", "a dog runs"]), atol=1e-5)
    embedded: list[str] = []
    pooled = SentenceEncoder._pooled
    monkeypatch.setattr(SentenceEncoder, "_pooled", lambda self, new: (embedded.extend(new), pooled(self, new))[1])
    again = remembering.encode(["a cat", "a bird", "a dog runs"])
    np.testing.assert_array_equal(again[[0, 2]], first[[1, 0]])
    assert embedded == ["a bird"]
    assert remembering.encode([]).shape == (0, encoder.dim)


def test_an_unknown_encoder_is_a_sentence(tmp_path: object) -> None:
    with pytest.raises(FewcapError, match=r"no/such/encoder.*minilm"):
        SentenceEncoder.load("./no/such/encoder")
