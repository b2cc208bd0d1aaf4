"""Every setting with its default and its explanation, for help texts and docs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, get_args, get_origin

from pydantic import BaseModel

from fewcap.core.config.root import Config


@dataclass(frozen=True)
class Setting:
    key: str  # as --set takes it: train.epochs
    value: Any
    kind: str
    explanation: str


def settings(config: BaseModel | None = None, prefix: str = "") -> Iterator[Setting]:
    """All settings of a configuration (the defaults without one), in the order of their sections."""
    config = config if config is not None else Config()
    for name, field in type(config).model_fields.items():
        value, key = getattr(config, name), f"{prefix}{name}"
        if isinstance(value, BaseModel):
            yield from settings(value, f"{key}.")
        else:
            plain = config.model_dump(mode="json")[name]
            yield Setting(key, plain, _kind(field.annotation), field.description or "")


def as_markdown(config: BaseModel | None = None) -> str:
    """The settings as one Markdown table a section."""
    lines: list[str] = []
    section = None
    for setting in settings(config):
        head = setting.key.rpartition(".")[0]
        if head != section:
            section = head
            lines += ["", f"## {head or 'The whole project'}", "", "| key | default | kind | what it does |"]
            lines += ["|---|---|---|---|"]
        explanation, kind = (text.replace("|", "\\|") for text in (setting.explanation, setting.kind))
        lines.append(f"| `{setting.key}` | `{_yaml(setting.value)}` | {kind} | {explanation} |")
    return "\n".join(lines).strip() + "\n"


def _yaml(value: Any) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return str(value).lower()
    return f'"{value}"' if value == "" else str(value)


def _kind(annotation: Any) -> str:
    origin, arguments = get_origin(annotation), get_args(annotation)
    if arguments and origin is not None and getattr(origin, "__name__", "") in {"list", "tuple", "dict"}:
        inner = ", ".join(_kind(argument) for argument in arguments if argument is not Ellipsis)
        return f"{origin.__name__} of {inner}"
    if arguments and all(not isinstance(argument, type) for argument in arguments) and "Literal" in str(annotation):
        return " / ".join(str(argument) for argument in arguments)
    if arguments:
        return " or ".join(_kind(argument) for argument in arguments)
    if annotation is type(None):
        return "null"
    return getattr(annotation, "__name__", str(annotation)).lower()
