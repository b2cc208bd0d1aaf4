"""The base of every configuration section."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, get_args

from pydantic import BaseModel, ConfigDict, model_validator

_YAML_SWITCHES = {False: "off", True: "on"}  # YAML reads a bare off as false


class Section(BaseModel):
    """Frozen, and closed: a key that is not a field is an error, never ignored."""

    model_config = ConfigDict(extra="forbid", frozen=True, protected_namespaces=(), validate_default=True)

    @model_validator(mode="before")
    @classmethod
    def _switches(cls, content: Any) -> Any:
        """``word_loss: off`` without quotes means the choice "off"."""
        if not isinstance(content, Mapping):
            return content
        meant = dict(content)
        for name, value in content.items():
            field = cls.model_fields.get(name)
            if field is not None and isinstance(value, bool) and _YAML_SWITCHES[value] in get_args(field.annotation):
                meant[name] = _YAML_SWITCHES[value]
        return meant
