"""COCO's caption tokenisation without Java: the Penn Treebank lexer of Stanford CoreNLP 3.4.1 as coco-caption calls it.

coco-caption runs the jar with ``-preserveLines -lowerCase`` and then removes PUNCTUATION. The lexer is a table of
patterns of which the longest match wins; here the patterns of English captions are kept and applied to one
blank-separated chunk at a time, so that each different chunk is analysed once. How often the result equals the jar's
is measured by ``tests/evaluation/test_ptb.py``.
"""

from __future__ import annotations

import html
import re
from functools import lru_cache

# As coco-caption lists them. The jar writes brackets in lower case ("-lrb-"), so coco-caption does not remove them,
# and scores agree with the published ones only if brackets stay.
PUNCTUATION = frozenset(
    ["''", "'", "``", "`", "-LRB-", "-RRB-", "-LCB-", "-RCB-", ".", "?", "!", ",", ":", "-", "--", "...", ";"]
)

_LETTER = r"[^\W\d_]"
_LETTERS = rf"(?:{_LETTER}|[0-9])"
_APOSTROPHE = "['\u0092\u2019]"
_APOSTROPHE_OR_BACKTICK = "['\u0092\u2019`\u0091\u2018\u201b]"

_MONTHS = "Jan|Feb|Mar|Apr|Jun|Jul|Aug|Sep|Sept|Oct|Nov|Dec"
_DAYS = "Mon|Tues?|Wed|Thu|Thurs|Fri"
_STATES = (
    "Ala|Ariz|Az|Calif|Colo|Conn|Ct|Dak|Del|Fla|Ga|Ill|Ind|Kans?|Ky|La|Mass|Md|Mich|Minn|Mo|Mont|Neb|Nev"
    "|Okla|Penn|Tenn|Va|Vt|Wisc?|Wyo"
)
_FIRMS = "Inc|Cos?|Corp|Pp?t[ye]s?|Ltd|Plc|Bancorp|Dept|Bhd|Assn|Univ|Intl|Sys|Invt|Elec|Natl|M[ft]g"
_TITLES = (
    "Jr|Sr|Bros|(?:Ed|Ph)\\.D|Blvd|Rd|Esq|Mr|Mrs|Ms|Drs?|Profs?|Sens?|Reps?|Attys?|Lt|Col|Gen|Messrs|Govs?|Adm|Rev"
    "|Maj|Sgt|Cpl|Pvt|Mt|Capt|Ste?|Ave|Pres|Lieut|Hon|Brig|Co?mdr|Pfc|Spc|Supts?|Det|Mssrs|Ft"
)
_ABBREVIATION = (
    rf"(?:(?i:{_MONTHS}|{_DAYS}|{_STATES}|{_FIRMS}|{_TITLES}|tel|est|ext|sq|etc|al|seq|bldg|vs)"
    r"|(?:A(?i:rk)|M(?i:iss)|O(?i:re)|P(?i:a)|T(?i:ex)|W(?i:ash)))\."
)
_ACRONYM = r"[A-Za-z](?:\.[A-Za-z])+"
_NUMBER = r"(?:[0-9]*(?:[.:,][0-9]+)+|[0-9]+)"

_END = rf"(?!{_LETTERS})"

# Every pattern is tried and the longest match taken; of equal ones the first. Where a pattern has a group, the token is
# that group, and what follows it only counts for the length, as in the lexer's trailing contexts.
_PATTERNS = [
    re.compile(pattern)
    for pattern in (
        r"</?[A-Za-z!?][^>]*>",
        # words that the Treebank splits
        rf"(?i:(can)not{_END}|(gon|wan)na{_END}|(got)ta{_END}|(gim|lem)me{_END})",
        rf"(?i:({_APOSTROPHE}t)(?:is|was){_END}|(d{_APOSTROPHE})ye{_END})",
        rf"([A-Za-z]*[A-MO-Za-mo-z])[nN]{_APOSTROPHE}[tT]",
        rf"[nN]{_APOSTROPHE}[tT]s?{_END}",
        rf"{_APOSTROPHE}(?:[msdMSD]|re|ve|ll|RE|VE|LL){_END}",
        # words, with inner full stops and after a short d', l' or o'
        rf"{_LETTERS}+(?:[.!?]{_LETTER}{_LETTERS}*)*",
        rf"[dDoOlL]{_APOSTROPHE_OR_BACKTICK}{_LETTER}{_LETTERS}+",
        rf"{_APOSTROPHE}(?i:n{_APOSTROPHE}|em{_END}|[0-9]0s{_END})",
        r"[A-Z]+(?:[+&][A-Z]+)+",
        r"[A-Za-z0-9]+(?:[_@][A-Za-z0-9]+)+",
        r"[A-Za-z0-9][A-Za-z0-9.,\u00ad]*(?:-[A-Za-z0-9\u00ad]+)+",
        r"[A-Za-z0-9]+(?:-[A-Za-z]+){0,2}(?:\\?/[A-Za-z0-9]+(?:-[A-Za-z]+){0,2}){1,2}",
        rf"(?:{_ACRONYM}|[A-Za-z])\.",
        _ABBREVIATION,
        # numbers
        rf"[-+]?{_NUMBER}",
        r"[0-9]{1,2}[-/][0-9]{1,2}[-/][0-9]{2,4}",
        r"[0-9]{1,4}-[0-9]{1,4}\\?/[0-9]{1,4}",
        # addresses
        r"(?:https?://|www\.)[^\s\"<>|()]+[^\s\"<>|.!?,;:()]",
        r"[A-Za-z0-9][\w.-]*@[A-Za-z0-9-]+(?:\.[A-Za-z0-9-]+)+",
        r"[@#][A-Za-z_][A-Za-z_0-9]*",
        # punctuation
        r"\.{3,}|\u2026",
        r"-+|[\u0096\u0097\u2013-\u2015]",
        r"``|''|[!?]+|#+",
        r"\S",
    )
]
_WRITTEN = {"(": "-lrb-", ")": "-rrb-", "[": "-lsb-", "]": "-rsb-", "{": "-lcb-", "}": "-rcb-", "\u00a3": "#"}
_CURLY = re.compile("[\u0092\u2019]")
_LETTER_AND_STOP = re.compile(r"(?:^\.?|[^A-Za-z.])[A-Za-z]\.$")
_PLAIN = re.compile(r"[a-z]+|[A-Z][a-z]*")
_SPLIT_WORDS = {
    "cannot": ("can", "not"),
    "gonna": ("gon", "na"),
    "wanna": ("wan", "na"),
    "gotta": ("got", "ta"),
    "gimme": ("gim", "me"),
    "lemme": ("lem", "me"),
}


def _written(token: str, opens: bool) -> str:
    """The token as the jar prints it."""
    if token in _WRITTEN:
        return _WRITTEN[token]
    if token in '"\u201c\u201d':
        return "``" if opens else "''"
    if token.startswith("..."):
        return "..."
    return _CURLY.sub("'", token.lower())


@lru_cache(maxsize=200_000)
def _tokens_of_chunk(chunk: str) -> tuple[str, ...]:
    if _PLAIN.fullmatch(chunk):
        word = chunk.lower()
        return _SPLIT_WORDS.get(word, (word,))
    tokens = []
    position = 0
    while position < len(chunk):
        longest = max(
            (match for pattern in _PATTERNS if (match := pattern.match(chunk, position))), key=lambda match: match.end()
        )
        token = next((group for group in longest.groups() if group), longest.group())
        written = _written(token, opens=position == 0)
        if written not in PUNCTUATION:
            tokens.append(written)
        position += len(token)
    return tuple(tokens)


def tokens(caption: str) -> list[str]:
    """The tokens by which COCO's metrics compare captions: lower case, punctuation removed."""
    if "&" in caption:
        caption = html.unescape(caption)
    chunks = caption.split()
    # A single letter and a full stop are an initial ("w. bush"), but not at the end of the caption.
    if chunks and _LETTER_AND_STOP.search(chunks[-1]):
        chunks[-1] = chunks[-1][:-1]
    return [token for chunk in chunks for token in _tokens_of_chunk(chunk)]


def tokenise(caption: str) -> str:
    """The caption as coco-caption's tokeniser writes it: tokens joined by blanks."""
    return " ".join(tokens(caption))
