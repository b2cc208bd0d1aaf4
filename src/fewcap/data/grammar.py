"""Captions of a synthetic scene as different people would write them.

A caption is put together from weighted choices: synonyms, with or without colours, tense, active or passive, with or
without the place and the bystander, and their order. The common choice is made often enough that captions of a
clip agree with one another, as human references do.
"""

from __future__ import annotations

import random
from collections.abc import Sequence

from fewcap.data.scene import Action, Actor, Kind, Place, Scene, dice_for

Weighted = Sequence[tuple[str, float]]

NOUNS: dict[Kind, Weighted] = {
    "ball": (("ball", 10),),
    "box": (("box", 8), ("cube", 2)),
    "robot": (("robot", 10),),
    "cat": (("cat", 8), ("kitten", 2)),
    "fish": (("fish", 10),),
    "car": (("car", 8), ("vehicle", 2)),
}
# Present tense, progressive, and what may follow the verb; "_" stands for the ground of the place.
VERBS: dict[Action, Sequence[tuple[str, str, Weighted, float]]] = {
    "bounce": (
        ("bounces", "bouncing", (("", 2), ("up and down", 3)), 7),
        ("jumps", "jumping", (("up and down", 1),), 3),
    ),
    "roll": (
        ("rolls", "rolling", (("across _", 4), ("over _", 2), ("", 2)), 8),
        ("tumbles", "tumbling", (("across _", 1),), 2),
    ),
    "spin": (
        ("spins", "spinning", (("around", 4), ("in the air", 2), ("", 2)), 7),
        ("turns", "turning", (("around", 2), ("in circles", 1)), 3),
    ),
    "fall": (
        ("falls", "falling", (("down", 3), ("to the ground", 3), ("from above", 1)), 8),
        ("drops", "dropping", (("to the ground", 2), ("down", 1)), 2),
    ),
    "hide": (
        ("hides", "hiding", (("behind a wall", 3), ("behind a brick wall", 1)), 7),
        ("goes", "going", (("behind a wall", 1),), 2),
        ("disappears", "disappearing", (("behind a wall", 1),), 1),
    ),
    "chase": (
        ("chases", "chasing", (("", 1),), 7),
        ("follows", "following", (("", 1),), 2),
        ("runs after", "running after", (("", 1),), 2),
    ),
    "meet": (
        ("meets", "meeting", (("", 1),), 7),
        ("greets", "greeting", (("", 1),), 2),
    ),
}
PARTICIPLES: Weighted = (("chased", 8), ("followed", 2))
GROUNDS: dict[Place, str] = {
    "meadow": "the grass",
    "beach": "the sand",
    "room": "the floor",
    "night": "the street",
}
PLACES: dict[Place, Weighted] = {
    "meadow": (("on the grass", 4), ("in a meadow", 3), ("in a green field", 2)),
    "beach": (("on the beach", 6), ("by the sea", 2), ("on the sand", 1)),
    "room": (("in a room", 6), ("inside a house", 2), ("on the floor", 1)),
    "night": (("at night", 5), ("on the street at night", 3), ("in the city at night", 1)),
}


def captions(scene: Scene, n: int, seed: int, index: int) -> list[str]:
    """``n`` different captions of the scene (fewer only if the grammar has no more)."""
    dice = dice_for("captions", seed, index)
    found: dict[str, None] = {}
    for _ in range(50 * n):
        found[_sentence(scene, dice)] = None
        if len(found) == n:
            break
    return list(found)


def _pick(dice: random.Random, choices: Weighted) -> str:
    return dice.choices([text for text, _ in choices], [weight for _, weight in choices])[0]


def _noun_phrase(actor: Actor, dice: random.Random, *, colour_chance: float = 0.8, article: str = "") -> str:
    noun = _pick(dice, NOUNS[actor.kind])
    colour = [actor.colour] if dice.random() < colour_chance else []
    article = article or _pick(dice, (("a", 8), ("the", 2)))
    return " ".join([article, *colour, noun])


def _sentence(scene: Scene, dice: random.Random) -> str:
    clause = _pair_clause(scene, dice) if scene.other is not None else _single_clause(scene, dice)
    extras = []
    ground_said = GROUNDS[scene.place] in clause
    if dice.random() < (0.2 if ground_said else 0.5):
        choices = [(text, weight) for text, weight in PLACES[scene.place] if GROUNDS[scene.place] not in text]
        extras.append(_pick(dice, choices if ground_said else PLACES[scene.place]))
    if scene.bystander is not None and dice.random() < 0.4:
        watcher = _noun_phrase(scene.bystander, dice, article="a")
        extras.append(_pick(dice, ((f"while {watcher} watches", 3), (f"next to {watcher}", 2))))
    if extras and not extras[0].startswith(("while", "next")) and dice.random() < 0.12:
        return " ".join([extras[0], clause, *extras[1:]])
    return " ".join([clause, *extras])


def _single_clause(scene: Scene, dice: random.Random) -> str:
    verbs = VERBS[scene.action]
    present, progressive, tails, _ = dice.choices(verbs, [verb[3] for verb in verbs])[0]
    tail = _pick(dice, tails).replace("_", GROUNDS[scene.place])
    form = _pick(dice, (("is", 6), ("present", 3), ("there", 0.7), ("bare", 0.7)))
    subject = _noun_phrase(scene.actor, dice, article="a" if form in ("there", "bare") else "")
    if form == "present":
        verb = present
    elif form == "is":
        verb = f"is {progressive}"
    else:
        verb = progressive
    start = "there is " if form == "there" else ""
    return f"{start}{subject} {verb} {tail}".strip()


def _pair_clause(scene: Scene, dice: random.Random) -> str:
    assert scene.other is not None
    first, second = scene.actor, scene.other
    if scene.action == "meet" and dice.random() < 0.5:
        first, second = second, first  # nobody meets more than the other
    one, two = (_noun_phrase(actor, dice, colour_chance=0.75) for actor in (first, second))
    if one.split()[1:] == two.split()[1:]:
        two = f"another {two.split()[-1]}"
    if scene.action == "chase" and dice.random() < 0.25 and not two.startswith("another"):
        auxiliary = _pick(dice, (("is being", 2), ("is", 1)))
        return f"{two} {auxiliary} {_pick(dice, PARTICIPLES)} by {one}"
    if scene.action == "meet" and dice.random() < 0.35:
        together = _pick(dice, (("meet", 3), ("are meeting", 2), ("are jumping together", 1)))
        return f"{one} and {two} {together}"
    verbs = VERBS[scene.action]
    present, progressive, _, _ = dice.choices(verbs, [verb[3] for verb in verbs])[0]
    verb = _pick(dice, ((f"is {progressive}", 6), (present, 4)))
    return f"{one} {verb} {two}"
