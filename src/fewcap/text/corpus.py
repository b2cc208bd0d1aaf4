"""Text files with one sentence a line, plain or gzipped."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Iterator
from pathlib import Path

from fewcap.core.errors import FewcapError


def read_lines(path: Path) -> Iterator[str]:
    """The lines of a file; what is wrong with it is said with its name."""
    try:
        if path.suffix == ".gz":
            with gzip.open(path, "rt", encoding="utf-8") as lines:
                yield from lines
        else:
            with open(path, encoding="utf-8") as lines:
                yield from lines
    except FileNotFoundError:
        raise FewcapError(f"{path}: there is no such corpus file; name a text file with one caption a line.") from None
    except UnicodeDecodeError as error:
        raise FewcapError(f"{path}: not UTF-8 text (byte {error.start}); convert it to UTF-8.") from None
    except (OSError, EOFError, zlib.error) as error:
        raise FewcapError(f"{path}: can not be read as a text file ({error}); name a .txt or .txt.gz file.") from None
