"""The script of a synthetic clip: who acts, where, what happens, and where everyone is at each moment.

Places are fractions of the frame: x to the right, y downwards, both from 0 to 1. Time u runs from 0 to 1 over the clip.
"""

from __future__ import annotations

import hashlib
import math
import random
from dataclasses import dataclass
from typing import Literal, get_args

Kind = Literal["ball", "box", "robot", "cat", "fish", "car"]
Colour = Literal["red", "blue", "green", "yellow", "purple", "white"]
Place = Literal["meadow", "beach", "room", "night"]
Action = Literal["bounce", "roll", "spin", "fall", "hide", "chase", "meet"]
KINDS: tuple[Kind, ...] = get_args(Kind)
COLOURS: tuple[Colour, ...] = get_args(Colour)
PLACES: tuple[Place, ...] = get_args(Place)
ACTIONS: tuple[Action, ...] = get_args(Action)
PAIR_ACTIONS = frozenset({"chase", "meet"})

GROUND = 0.84  # where feet stand
BYSTANDER_SHARE = 0.25
USUAL_SIZE = (320, 240)
USUAL_RATE = (12, 1)
ODD_SIZES = ((240, 320), (426, 240), (256, 256), (322, 242), (176, 144))
ODD_RATES = ((24000, 1001), (30000, 1001), (10, 1), (25, 2), (50, 1))


@dataclass(frozen=True)
class Actor:
    """One figure; ``size`` is its height as a fraction of the frame's."""

    kind: Kind
    colour: Colour
    size: float


@dataclass(frozen=True)
class Pose:
    """Where an actor's centre is, and how it is turned (degrees, clockwise) and squeezed."""

    x: float
    y: float
    turn: float = 0.0
    stretch_x: float = 1.0
    stretch_y: float = 1.0
    flip: bool = False  # looks to the left


@dataclass(frozen=True)
class Scene:
    """Everything that decides the pixels of a clip."""

    id: str
    place: Place
    action: Action
    actor: Actor
    other: Actor | None  # the one who is chased or met
    bystander: Actor | None
    leftwards: bool
    start: float  # where a standing actor stands
    pan: tuple[float, float]  # drift of the camera over the clip, as fractions of the frame
    size: tuple[int, int]  # width, height in pixels
    rate: tuple[int, int]  # frames per second as a fraction
    frames: int
    sound: bool
    decor: int  # seed of clouds, stars and pictures on the wall

    @property
    def actors(self) -> tuple[Actor, ...]:
        return tuple(actor for actor in (self.actor, self.other, self.bystander) if actor is not None)


def make_scene(seed: int, index: int, *, seconds: float, odd_share: float, sound_share: float) -> Scene:
    """Clip number ``index`` of the world ``seed``; it does not depend on how many clips there are."""
    dice = dice_for("scene", seed, index)
    action = ACTIONS[index % len(ACTIONS)]  # every action equally often, however few clips
    colours = dice.sample(COLOURS, 3)

    def actor(number: int, size: float) -> Actor:
        return Actor(dice.choice(KINDS), colours[number], round(size * dice.uniform(0.92, 1.08), 3))

    pair = action in PAIR_ACTIONS
    first = actor(0, 0.34 if pair else 0.42)
    second = actor(1, 0.34) if pair else None
    bystander = actor(2, 0.26) if dice.random() < BYSTANDER_SHARE and action != "hide" else None
    leftwards = dice.random() < 0.5
    start = dice.uniform(0.4, 0.6)
    pan = (dice.uniform(-0.06, 0.06), dice.uniform(-0.03, 0.03))
    decor = dice.randrange(2**31)
    sound = dice.random() < sound_share
    size, rate, length = USUAL_SIZE, USUAL_RATE, seconds * dice.uniform(0.93, 1.07)
    if dice.random() < odd_share:
        oddity = dice.choice(("size", "rate", "length"))
        if oddity == "size":
            size = dice.choice(ODD_SIZES)
        elif oddity == "rate":
            rate = dice.choice(ODD_RATES)
        else:
            length = seconds * dice.choice((0.6, 1.7))
    return Scene(
        id=f"clip{index:05d}",
        place=dice.choice(PLACES),
        action=action,
        actor=first,
        other=second,
        bystander=bystander,
        leftwards=leftwards,
        start=start,
        pan=pan,
        size=size,
        rate=rate,
        frames=max(8, round(length * rate[0] / rate[1])),
        sound=sound,
        decor=decor,
    )


def dice_for(purpose: str, seed: int, index: int) -> random.Random:
    """Random numbers of one purpose for one clip: the same in every process and on every machine."""
    return random.Random(hashlib.sha256(f"{purpose}:{seed}:{index}".encode()).digest())


def poses(scene: Scene, u: float) -> list[Pose]:
    """Poses of ``scene.actors`` at time u, in their order."""
    act = _ACTS[scene.action]
    found = [_mirror(pose) if scene.leftwards else pose for pose in act(scene, u)]
    if scene.bystander is not None:
        # The bystander stands where the action is not, and looks at it.
        sway = 2.5 * math.sin(2 * math.pi * 1.5 * u)
        pose = Pose(0.1, _standing(scene.bystander) - 0.05, turn=sway)
        found.append(_mirror(pose) if not scene.leftwards else pose)
    return found


def _standing(actor: Actor) -> float:
    return GROUND - actor.size / 2


def _mirror(pose: Pose) -> Pose:
    return Pose(1 - pose.x, pose.y, -pose.turn, pose.stretch_x, pose.stretch_y, not pose.flip)


def _ease(u: float) -> float:
    u = min(max(u, 0.0), 1.0)
    return u * u * (3 - 2 * u)


def _bounce(scene: Scene, u: float) -> list[Pose]:
    hop = abs(math.sin(math.pi * 3.5 * u + 0.6))
    squash = 0.22 * max(0.0, 1 - 4 * hop)
    height = scene.actor.size * (1 - squash)
    y = GROUND - height / 2 - 0.36 * hop
    x = scene.start - 0.08 + 0.16 * u
    return [Pose(x, y, stretch_x=1 + squash, stretch_y=1 - squash)]


def _roll(scene: Scene, u: float) -> list[Pose]:
    return [Pose(0.14 + 0.72 * u, _standing(scene.actor), turn=540 * u)]


def _spin(scene: Scene, u: float) -> list[Pose]:
    return [Pose(scene.start, _standing(scene.actor) - 0.1, turn=360 * 3 * u)]


def _fall(scene: Scene, u: float) -> list[Pose]:
    landing = 0.5
    low = _standing(scene.actor)
    if u < landing:
        y = -0.1 + (low + 0.1) * (u / landing) ** 2
        return [Pose(scene.start, y, turn=70 * u / landing)]
    rest = (u - landing) / (1 - landing)
    bump = 0.1 * abs(math.sin(math.pi * 2 * rest)) * (1 - rest)
    return [Pose(scene.start, low - bump, turn=70 + 20 * _ease(rest * 2))]


def wall_at(scene: Scene) -> float:
    """Centre of the wall that someone hides behind."""
    return 0.3 if scene.leftwards else 0.7


def _hide(scene: Scene, u: float) -> list[Pose]:
    goes = _ease(u / 0.65)
    step = abs(math.sin(math.pi * 4 * min(u / 0.65, 1.0)))
    peek = 0.12 * max(0.0, math.sin(math.pi * (u - 0.8) / 0.2)) if u > 0.8 else 0.0
    return [Pose(0.18 + 0.52 * goes, _standing(scene.actor) - 0.04 * step - peek)]


def _chase(scene: Scene, u: float) -> list[Pose]:
    assert scene.other is not None
    chaser, chased = 0.02 + 0.7 * u, 0.4 + 0.64 * u

    def running(actor: Actor, x: float, phase: float) -> Pose:
        step = abs(math.sin(math.pi * (7 * u + phase)))
        return Pose(x, _standing(actor) - 0.07 * step, turn=8)

    return [running(scene.actor, chaser, 0.0), running(scene.other, chased, 0.4)]


def _meet(scene: Scene, u: float) -> list[Pose]:
    assert scene.other is not None
    come = _ease(u / 0.5)
    joy = abs(math.sin(math.pi * 3 * (u - 0.5) / 0.5)) * 0.13 if u > 0.5 else 0.0
    step = 0.03 * abs(math.sin(math.pi * 8 * u)) if u < 0.5 else 0.0
    far = 0.94 if scene.bystander is None else 0.78  # a bystander stands at the edge
    left = Pose(0.06 + 0.33 * come, _standing(scene.actor) - joy - step)
    right = Pose(far - (far - 0.61) * come, _standing(scene.other) - joy - step, flip=True)
    return [left, right]


_ACTS = {
    "bounce": _bounce,
    "roll": _roll,
    "spin": _spin,
    "fall": _fall,
    "hide": _hide,
    "chase": _chase,
    "meet": _meet,
}
