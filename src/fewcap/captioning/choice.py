"""Which caption of the beam to take, learnt from captions of videos whose sentences are known (beyond the paper).

The plain vote (``consensus``) weighs what speaks for a caption by fixed numbers. Captions of training videos by models
that have not seen them, judged by the videos' sentences, tell how much each argument is worth, and which words are
said too readily: a ridge regression on differences within the captions of a video.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from fewcap.captioning.consensus import Consensus, Voters
from fewcap.captioning.decode import Hypothesis

ARGUMENTS = ("captions", "sentences", "best sentences", "words", "probability")
_TRUST = 0.5  # the power of a caption's probability that is its vote on the others
_SHARPER, _BEST_OF = 3, 40  # best sentences: the nearest of them count more, and the best of so many
_WORDS = 50  # the most frequent ones have weights of their own
_WORD_SCALE = 2.0  # a word counts like so many standard deviations of an argument
_PENALTY = 0.06  # of the ridge regression, a caption


@dataclass(frozen=True)
class Ballot:
    """The captions of a video that stand for election."""

    captions: tuple[tuple[str, ...], ...]  # their words
    arguments: np.ndarray  # [captions, 5], what speaks for each


@dataclass(frozen=True)
class Choice:
    """Weights of arguments and of words."""

    arguments: Mapping[str, float]
    words: Mapping[str, float]

    def merits(self, ballot: Ballot) -> np.ndarray:
        """[captions]; the largest wins."""
        known = {word: place for place, word in enumerate(self.words)}
        weights = np.array([*(self.arguments[name] for name in ARGUMENTS), *self.words.values()])
        return np.asarray(_rows(ballot, known) @ weights)


def arguments(consensus: Consensus, hypotheses: Sequence[Hypothesis], voters: Voters) -> np.ndarray:
    """[captions, 5]: agreement with the other captions, with near sentences and with the best of them, the number of
    words and the log-probability."""
    closeness = consensus.to_sentences(hypotheses, voters)
    sharper = voters.shares**_SHARPER
    best = Voters(voters.sentences, sharper / sharper.sum(), _BEST_OF)
    return np.stack(
        [
            consensus.among(hypotheses, _TRUST),
            Voters(voters.sentences, voters.shares).agreement(closeness),
            best.agreement(closeness),
            np.array([float(len(h.words)) for h in hypotheses]),
            np.array([h.log_probability for h in hypotheses]),
        ],
        axis=1,
    )


def learn(ballots: Sequence[Ballot], worths: Sequence[np.ndarray]) -> Choice:
    """From the captions of many videos and what each of them is worth."""
    said = Counter(word for ballot in ballots for caption in ballot.captions for word in set(caption))
    known = {word: place for place, (word, _) in enumerate(said.most_common(_WORDS))}
    x = np.concatenate([_rows(ballot, known) for ballot in ballots])
    y = np.concatenate([worth - worth.mean() for worth in worths])
    weights = np.linalg.solve(x.T @ x + _PENALTY * len(x) * np.eye(x.shape[1]), x.T @ y)
    numbers = [round(weight, 6) for weight in weights.tolist()]
    places = len(ARGUMENTS)
    return Choice(dict(zip(ARGUMENTS, numbers[:places], strict=True)), dict(zip(known, numbers[places:], strict=True)))


def _rows(ballot: Ballot, known: Mapping[str, int]) -> np.ndarray:
    """[captions, 5 + words]: arguments and words, each as it differs from the mean of the video's captions."""
    holds = np.zeros((len(ballot.captions), len(known)))
    for row, caption in zip(holds, ballot.captions, strict=True):
        row[[known[word] for word in set(caption) if word in known]] = _WORD_SCALE
    spread = ballot.arguments.std(0)
    spread[spread < 1e-6] = 1.0  # all alike
    apart = (ballot.arguments - ballot.arguments.mean(0)) / spread
    return np.concatenate([apart, holds - holds.mean(0)], axis=1)
