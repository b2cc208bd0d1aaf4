"""Configuration from YAML and ``--set section.key=value``, with errors that name key, value and nearest name."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, get_args

import yaml
from pydantic import BaseModel, ValidationError

from fewcap.core.config.root import Config
from fewcap.core.errors import UsageError, nearest


def load_config(path: Path | None = None, overrides: Iterable[str] = ()) -> Config:
    """The configuration in ``path`` (defaults without one), with ``section.key=value`` overrides on top."""
    where = str(path) if path is not None else "the configuration"
    tree = _read_yaml(path) if path is not None else {}
    for key, value in parse_overrides(overrides).items():
        _apply(tree, key, value)
    try:
        return Config.model_validate(tree)
    except ValidationError as error:
        raise UsageError("\n".join(_sentence(where, problem) for problem in error.errors())) from None


def write_config(config: Config, path: Path) -> None:
    """Writes what differs from the defaults, so that the file says what was decided."""
    tree = config.model_dump(mode="json", exclude_defaults=True)
    path.write_text(yaml.safe_dump(tree, sort_keys=False, allow_unicode=True) if tree else "{}\n", encoding="utf-8")


def _read_yaml(path: Path) -> dict[str, Any]:
    try:
        tree = yaml.safe_load(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise UsageError(f"{path}: there is no such configuration file.") from None
    except IsADirectoryError:
        raise UsageError(f"{path} is a folder; name the YAML file in it.") from None
    except UnicodeDecodeError as error:
        raise UsageError(f"{path}: not UTF-8 text (byte {error.start}); save it as UTF-8.") from None
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        line = f", line {mark.line + 1}" if mark is not None else ""
        raise UsageError(f"{path}{line}: not valid YAML: {getattr(error, 'problem', None) or error}.") from None
    except OSError as error:
        raise UsageError(f"{path}: can not be read: {error.strerror}.") from None
    if tree is None:
        return {}
    if not isinstance(tree, dict):
        raise UsageError(f"{path}: must hold sections such as 'train:', but holds {type(tree).__name__} {tree!r:.60}.")
    return tree


def parse_overrides(overrides: Iterable[str]) -> dict[str, Any]:
    """``["train.epochs=3"]`` → ``{"train.epochs": 3}``; values are YAML."""
    parsed: dict[str, Any] = {}
    for override in overrides:
        key, separator, text = override.partition("=")
        key = key.strip()
        if not separator or not all(key.split(".")):
            raise UsageError(f"--set {override!r}: write it as section.key=value, for example train.epochs=3.")
        try:
            parsed[key] = yaml.safe_load(text)
        except yaml.YAMLError:
            raise UsageError(f"--set {override!r}: {text!r} is not a valid YAML value; quote it.") from None
    return parsed


def _apply(tree: dict[str, Any], key: str, value: Any) -> None:
    *sections, last = key.split(".")
    node = tree
    for section in sections:
        child = node.setdefault(section, {})
        if not isinstance(child, dict):
            raise UsageError(f"--set '{key}={value}': '{section}' is a value ({child!r}), not a section.")
        node = child
    node[last] = value


def _sentence(where: str, problem: Mapping[str, Any]) -> str:
    location = [str(part) for part in problem["loc"]]
    key, value = ".".join(location), problem["input"]
    if problem["type"] == "extra_forbidden":
        names = _fields_at(location[:-1])
        known = nearest(location[-1], names) or f" Known here: {', '.join(sorted(names))}."
        return f"{where}: unknown key '{key}' (value {value!r:.60}).{known}"
    message = str(problem["msg"]).removeprefix("Value error, ")
    if problem["type"] == "value_error" and isinstance(value, Mapping):
        return f"{where}: {key + ': ' if key else ''}{message}"
    hint = ""
    if problem["type"] == "literal_error" and isinstance(value, str):
        hint = nearest(value, _choices_at(location))
    return f"{where}: '{key}' can not be {value!r:.60}: {message[:1].lower() + message[1:]}.{hint}"


def _annotation_at(location: Iterable[str]) -> Any:
    annotation: Any = Config
    for part in location:
        model = next((a for a in (annotation, *get_args(annotation)) if _is_section(a)), None)
        if model is None or part not in model.model_fields:
            return None
        annotation = model.model_fields[part].annotation
    return annotation


def _fields_at(location: Iterable[str]) -> list[str]:
    annotation = _annotation_at(location)
    model = next((a for a in (annotation, *get_args(annotation)) if _is_section(a)), None)
    return list(model.model_fields) if model is not None else []


def _choices_at(location: Iterable[str]) -> list[str]:
    return [str(choice) for choice in get_args(_annotation_at(location))]


def _is_section(annotation: Any) -> bool:
    return isinstance(annotation, type) and issubclass(annotation, BaseModel)
