"""Configuration: every field explained, every mistake named."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from pydantic import BaseModel

from fewcap.core.config import Config, Section, load_config, write_config
from fewcap.core.errors import UsageError


def sections(model: type[BaseModel] = Config, path: str = "") -> list[tuple[str, type[BaseModel]]]:
    found = [(path, model)]
    for name, field in model.model_fields.items():
        if isinstance(field.annotation, type) and issubclass(field.annotation, BaseModel):
            found += sections(field.annotation, f"{path}.{name}".lstrip("."))
    return found


def test_every_field_is_explained() -> None:
    silent = [
        f"{path}.{name}"
        for path, model in sections()
        for name, field in model.model_fields.items()
        if not field.description
    ]
    assert silent == []


def test_every_section_is_closed_and_frozen() -> None:
    assert all(issubclass(model, Section) for _, model in sections())
    with pytest.raises(ValueError, match="frozen"):
        Config().seed = 3  # type: ignore[misc]


def test_yaml_and_overrides(tmp_path: Path) -> None:
    path = tmp_path / "fewcap.yaml"
    path.write_text("seed: 3\ntrain: {epochs: 2}\n")
    config = load_config(path, ["train.epochs=5"])
    assert (config.seed, config.train.epochs) == (3, 5)


def test_an_empty_file_means_defaults(tmp_path: Path) -> None:
    path = tmp_path / "fewcap.yaml"
    path.write_text("")
    assert load_config(path) == Config()


def test_written_configuration_reads_back(tmp_path: Path) -> None:
    config = load_config(None, ["seed=7", "train.epochs=2"])
    write_config(config, tmp_path / "c.yaml")
    assert load_config(tmp_path / "c.yaml") == config
    assert yaml.safe_load((tmp_path / "c.yaml").read_text())["seed"] == 7


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("train.epohs=3", r"unknown key 'train\.epohs' \(value 3\)\. Did you mean 'epochs'\?"),
        ("trian.epochs=3", r"unknown key 'trian' .* Did you mean 'train'\?"),
        ("train.epochs=many", r"'train\.epochs' can not be 'many'"),
        ("train.epochs=-1", r"'train\.epochs' can not be -1"),
        ("seed=-5", "'seed' can not be -5"),
        ("train=3", "'train' can not be 3"),
        ("seed.x=3", "unknown|can not be"),
        ("train.epochs", r"write it as section\.key=value"),
        ("=3", r"write it as section\.key=value"),
        ("train..x=3", r"write it as section\.key=value"),
        ("train.epochs=[1", "not a valid YAML value"),
    ],
)
def test_mistakes_name_key_value_and_nearest_name(override: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        load_config(None, [override])


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"train: [1, 2", r"line \d: not valid YAML"),
        (b"- a\n- b\n", "must hold sections"),
        (b"hello", "must hold sections"),
        (b"\xff\xfe", "not UTF-8"),
    ],
)
def test_broken_files_are_named(tmp_path: Path, content: bytes, message: str) -> None:
    path = tmp_path / "fewcap.yaml"
    path.write_bytes(content)
    with pytest.raises(UsageError, match=message) as caught:
        load_config(path)
    assert "fewcap.yaml" in str(caught.value)


def test_missing_files_and_folders_are_named(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no such configuration file"):
        load_config(tmp_path / "none.yaml")
    with pytest.raises(UsageError, match="is a folder"):
        load_config(tmp_path)


def test_all_mistakes_are_reported_at_once() -> None:
    with pytest.raises(UsageError) as caught:
        load_config(None, ["seed=x", "train.epohs=3"])
    assert "seed" in str(caught.value)
    assert "epohs" in str(caught.value)


def test_off_needs_no_quotes(tmp_path: Path) -> None:
    file = tmp_path / "fewcap.yaml"
    file.write_text("train: {word_loss: off}\nscore: {meteor: off}\nfeatures: {crops: 2}\n")
    config = load_config(file, ["label.enabled=off"])
    assert (config.train.word_loss, config.score.meteor, config.label.enabled) == ("off", "off", False)
    assert load_config(file, ["score.meteor=on", "train.word_loss=all"]).score.meteor == "on"
    with pytest.raises(UsageError, match=r"train\.word_loss.*can not be True"):
        load_config(file, ["train.word_loss=yes"])
