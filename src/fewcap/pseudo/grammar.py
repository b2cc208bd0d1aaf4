"""A few agreement rules of English that the small language models still break: articles, is/are, dangling ends.

The rules see word shapes and part-of-speech tags only. They refuse some good sentences; of many candidates that costs
little. Words of other languages pass.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from fewcap.text.tagger import CaptionTagger

_SINGULAR_ARTICLES = {"a", "an", "another", "this"}
_IS, _ARE = {"is", "was"}, {"are", "were"}
_PLURALS = {"people", "men", "women", "children", "feet", "teeth", "mice", "geese", "sheep", "they", "police"}
_NOT_PLURAL = {"tennis", "gas", "lens", "news", "series", "bus", "chess", "dress", "canvas", "christmas", "pancreas"}
_NUMBERS = {"two", "three", "four", "five", "six", "several", "many", "both", "these"}
_MANY = _NUMBERS | {"some", "few", "couple", "all"}
_MASS = {"food", "water", "pasta", "rice", "meat", "bread", "cheese", "milk", "butter", "music", "sand", "snow", "oil"}
_MASS |= {"mud", "grass", "flour", "sugar", "money", "furniture", "garlic", "beef", "pork", "equipment", "clothing"}
_PARTICLES = {"up", "down", "out", "off", "in", "on", "over", "around", "away", "together", "by", "through", "inside"}
_PARTICLES |= {"outside", "back", "along", "forward", "upside", "past", "under", "underwater"}
# fmt: off
_PARTICIPLES = {
    "cut", "made", "held", "shown", "put", "seen", "done", "hit", "sung", "gone", "built", "caught", "kept",
    "laid", "left", "lit", "lost", "met", "paid", "read", "run", "sent", "set", "shot", "shut", "split", "spread",
    "stood", "stuck", "swept", "told", "torn", "worn", "wound", "won", "born", "drawn", "flown", "grown", "known",
    "fed", "led", "bent", "bound", "hung", "swung", "burnt", "cast", "hurt", "begun", "drunk", "swum", "thrown",
    "blown", "dug", "slid", "spun", "struck", "fought", "brought", "bought", "taught", "thought", "ground",
    "strung", "wrung", "upset", "sat", "sold", "found", "got",
}
_PAST = _PARTICIPLES | {
    "took", "ran", "ate", "rode", "threw", "sang", "drove", "fell", "drew", "wrote", "gave", "went", "came",
    "saw", "blew", "broke", "chose", "did", "flew", "forgot", "grew", "knew", "rang", "rose", "shook", "sank",
    "spoke", "stole", "swam", "wore", "woke", "bit", "hid", "tore", "lay", "drank", "began", "became", "fled",
    "slept", "wept", "dealt", "felt", "lent", "meant", "spent", "crept", "leapt", "knelt", "dreamt",
}
# fmt: on
_ONE = {"someone", "somebody", "everyone", "anyone", "he", "she"}
_LINKS = {"and", "while", "that", "who", "which", "as", "when", "because", "but", "what", "how", "there"}
_POSSESSIVES = {"his", "their", "its", "my", "your", "our"}
_DANGLING = _POSSESSIVES | {"a", "an", "the", "this", "these", "some", "every"}


def agreement_error(sentence: Sequence[str], tagger: CaptionTagger, given: Sequence[str] = ()) -> str:
    """What is wrong, in a few words; empty when no rule objects. What the given sentence has wrong is forgiven."""
    forgiven = set(_errors(given, tagger)) if given else set()
    return next((error for error in _errors(sentence, tagger) if error not in forgiven), "")


def _errors(sentence: Sequence[str], tagger: CaptionTagger) -> Iterator[str]:
    tags = tagger.tag(sentence)
    for index in range(len(sentence)):
        for check in (_article, _number, _auxiliary, _verb, _subject):
            if error := check(sentence, tags, index):
                yield error
    last, tag = sentence[-1], tags[-1]
    if last in _DANGLING or tag in "TX" or (tag == "P" and last not in _PARTICLES):
        yield f"ends with {last}"


def _article(words: Sequence[str], tags: Sequence[str], index: int) -> str:
    """An article needs a noun behind it, "a" one in the singular, and there is one article at a time."""
    if words[index] in _POSSESSIVES | {"some"} and set(words[index + 1 : index + 2]) & {"a", "an", "the", "some"}:
        return f"{words[index]} {words[index + 1]}"
    if words[index] not in _SINGULAR_ARTICLES | {"the"} or index + 1 == len(words):
        return ""
    run = index + 1
    while run < len(words) and tags[run] in "JNCRV":
        run += 1
    nouns = [i for i in range(index + 1, run) if tags[i] == "N"]
    if tags[index + 1] in "DPTX" and words[index + 1] not in ("few", "lot", "little"):
        return f"{words[index]} {words[index + 1]}"
    if tags[index + 1] == "V" and not _is_participle(words[index + 1]):
        return f"{words[index]} {words[index + 1]}"
    if not nouns:
        return f"{words[index]} without a noun" if run > index + 1 else ""
    head = nouns[0]
    while head + 1 < run and tags[head + 1] == "N":
        head += 1
    if words[index] in ("a", "an", "another") and words[head] in _MASS:
        return f"{words[index]} {words[head]}"
    if words[index] in _SINGULAR_ARTICLES and is_plural(words[head]) and not _MANY & set(words[index:head]):
        return f"{words[index]} with the plural {words[head]}"
    return ""


def _number(words: Sequence[str], tags: Sequence[str], index: int) -> str:
    """Behind a number stands a plural."""
    if words[index] not in _NUMBERS:
        return ""
    run = index + 1
    while run < len(words) and tags[run] in "JN":
        run += 1
    head = words[run - 1]
    if run == index + 1 or tags[run - 1] != "N" or is_plural(head) or head in ("fish", "deer"):
        return ""
    return f"{words[index]} {head}"


def _auxiliary(words: Sequence[str], tags: Sequence[str], index: int) -> str:
    """Behind is or are: no second one in the same clause, no bare noun, a verb as a participle, a passive one alone."""
    if words[index] not in _IS | _ARE or index + 1 == len(words):
        return ""
    clause = next((i for i in range(index + 1, len(words)) if words[i] in _LINKS), len(words))
    if again := [word for word in words[index + 1 : clause] if word in _IS | _ARE]:
        return f"{words[index]} and again {again[0]}"
    finite = [word for word, tag in zip(words[:index], tags, strict=False) if tag == "V" and word.endswith("s")]
    if finite and not _LINKS & set(words[:index]):
        return f"{finite[0]} and again {words[index]}"
    later = [words[i] for i in range(index + 1, clause) if tags[i] == "V" and words[i].endswith("s")]
    if later:
        return f"{words[index]} and again {later[0]}"
    following, tag = words[index + 1], tags[index + 1]
    behind = tags[index + 2] if index + 2 < len(words) else ""
    described = behind == "V" and not set(tags[index + 3 : index + 4]) & {"D", "N"}  # is horse riding
    if tag == "N" and not following.endswith("ing") and not described:
        return f"{words[index]} {following}"
    if tag != "V" or following.endswith("ing"):
        return ""
    if not _is_participle(following):
        return f"{words[index]} {following}"
    if behind in ("D", "N", "C") or (behind and (words[index + 2] == "to" or words[index + 2].endswith("ing"))):
        return f"{words[index]} {following} {words[index + 2]}"
    return ""


def _verb(words: Sequence[str], tags: Sequence[str], index: int) -> str:
    """One who does something "does" it: "a man examine" is wrong; so are "to tried" and "trying plays"."""
    if index < 1 or tags[index] != "V":
        return ""
    verb, before = words[index], words[index - 1]
    if verb.endswith("ing") and before == "to":
        return f"{before} {verb}"
    if verb.endswith(("s", "ed")) and (before == "to" or (tags[index - 1] == "V" and before.endswith("ing"))):
        return f"{before} {verb}"
    if before not in _ONE and (tags[index - 1] != "N" or is_plural(before)):
        return ""
    if verb.endswith("s") and _is_pair(words, tags, index):
        return f"and {before} {verb}"
    opening = words[0] in _SINGULAR_ARTICLES | {"the"} and all(tag in "DJN" for tag in tags[:index])
    if (opening or before in _ONE) and not verb.endswith(("s", "ing", "ed", "en")) and verb not in _PAST:
        return f"{words[index - 1]} {verb}"
    return ""


def _subject(words: Sequence[str], tags: Sequence[str], index: int) -> str:
    """Is for one, are for many; a subject with "of" or "and" may be either."""
    if index == 0 or words[index] not in _IS | _ARE or tags[index - 1] != "N":
        return ""
    if words[index] in _IS and index > 1 and all(tag in "VJN" for tag in tags[:index]):
        return f"no article before {words[index - 1]}"
    before = set(words[:index])
    if "of" in before:
        return ""
    subject = words[index - 1]
    many = is_plural(subject) or "and" in before or bool(_MANY & before)
    if words[index] in _IS and _is_pair(words, tags, index):
        return f"and {subject} {words[index]}"
    if words[index] in _IS and is_plural(subject) and not any(tag == "P" for tag in tags[:index]):
        return f"{subject} {words[index]}"
    if words[index] in _ARE and not many and not any(is_plural(word) for word in before):
        return f"{subject} {words[index]}"
    return ""


def _is_pair(words: Sequence[str], tags: Sequence[str], index: int) -> bool:
    """Whether all before a verb is "one and another"."""
    before = zip(words[:index], tags, strict=False)
    return "and" in words[1:index] and all(tag in "DJN" or word == "and" for word, tag in before)


def _is_participle(word: str) -> bool:
    return word.endswith(("ing", "ed", "en", "wn")) or word in _PARTICIPLES


def is_plural(word: str) -> bool:
    """By spelling."""
    if word in _PLURALS:
        return True
    return len(word) > 3 and word.endswith("s") and not word.endswith(("ss", "us", "is")) and word not in _NOT_PLURAL
