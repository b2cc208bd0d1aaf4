"""Reading a folder of extracted features: an index, and shards that are mapped into memory and read lazily."""

from __future__ import annotations

from collections.abc import Collection
from copy import copy
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from safetensors import safe_open

from fewcap.core.errors import FewcapError, nearest
from fewcap.core.store import read_json
from fewcap.core.types import KINDS, Kind, VideoFeatures

INDEX = "index.json"


@dataclass(frozen=True)
class KindInfo:
    """Where the vectors of one kind come from."""

    name: str  # of the backbone
    dim: int
    hash: str  # of weights, preprocessing and code version: features with another hash do not mix


def tensor_key(kind: str, video: str) -> str:
    """The name of a video's tensor inside a shard."""
    return f"{kind}/{video}"


class FeatureStore:
    """The features of a data set by video id: ``store[id].appearance`` is [N_f, d_a] in half precision.

    Opening reads the index only. Shards stay mapped, so a random read costs microseconds and no private memory;
    a store can be sent to another process.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = Path(folder)
        index = read_json(self.folder / INDEX)
        try:
            self._videos: dict[str, dict[str, Any]] = index["videos"]
            self.kinds: dict[Kind, KindInfo] = {
                cast(Kind, kind): KindInfo(**facts) for kind, facts in index["backbones"].items()
            }
        except (KeyError, TypeError):
            raise FewcapError(f"{self.folder / INDEX}: not an index of features; extract them again.") from None
        self._shards: dict[str, Any] = {}

    def only(self, kinds: Collection[str]) -> FeatureStore:
        """The same store as if no other kinds had been extracted."""
        part = copy(self)
        part.kinds = {kind: info for kind, info in self.kinds.items() if kind in kinds}
        return part

    @property
    def ids(self) -> tuple[str, ...]:
        """The videos that have features, in the order of the data set."""
        return tuple(self._videos)

    def __len__(self) -> int:
        return len(self._videos)

    def __contains__(self, video: str) -> bool:
        return video in self._videos

    def __getitem__(self, video: str) -> VideoFeatures:
        if video not in self._videos:
            hint = nearest(video, self._videos) or " Its row in problems.jsonl may say why."
            raise FewcapError(f"{self.folder}: there are no features of video '{video}'.{hint}")
        return self._read(self._videos[video]["shard"], video)

    def looks(self, video: str) -> tuple[VideoFeatures, ...]:
        """The features of a video, then those of its cut-outs."""
        crops: dict[str, str] = self.facts(video).get("crops", {})
        return (self[video], *(self._read(shard, name) for name, shard in crops.items()))

    def facts(self, video: str) -> dict[str, Any]:
        """Counts and timestamps of a video, as the index holds them."""
        return self._videos[video]

    def _read(self, shard: str, name: str) -> VideoFeatures:
        tensors = self._open(shard)
        return VideoFeatures(
            **{kind: tensors.get_tensor(tensor_key(kind, name)) if kind in self.kinds else None for kind in KINDS}
        )

    def _open(self, name: str) -> Any:
        if name not in self._shards:
            path = self.folder / name
            try:
                self._shards[name] = safe_open(path, framework="pt")
            except Exception as error:
                raise FewcapError(f"{path}: can not be read ({error}); extract the features again.") from None
        return self._shards[name]

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_shards": {}}
