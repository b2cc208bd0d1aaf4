"""The captioner's tokenisation: lower-case words without punctuation (section 4.3 of the paper).

Punctuation separates words, the apostrophe and the hyphen included: "it's" becomes "it s" and "t-shirt" becomes
"t shirt". That is how the MSVD and MSR-VTT captions are already written, so that captions of VATEX, COCO or a user's
own file, which keep their punctuation, share one vocabulary with them.
"""

from __future__ import annotations

import re
import unicodedata

_ASCII_WORD = re.compile(r"[a-z0-9]+")


def words(text: str) -> list[str]:
    """Lower-case words of a sentence in order; letters, digits and their combining marks are kept in any script."""
    if text.isascii():
        return _ASCII_WORD.findall(text.lower())
    folded = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", text).lower())
    return "".join(c if unicodedata.category(c)[0] in "LNM" else " " for c in folded).split()
