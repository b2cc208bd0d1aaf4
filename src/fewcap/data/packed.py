"""Ready features without videos: an npz file with one array for each video id.

``npz[id]`` is [n, d]: float, or uint8 with ``npz[id + ".scale"]``, where the feature is u8 / 255 x scale.
"""

from __future__ import annotations

import zipfile
from pathlib import Path
from typing import TYPE_CHECKING

from fewcap.core.errors import FewcapError

if TYPE_CHECKING:
    import numpy as np

_SCALE = ".scale"


class PackedFeatures:
    """Features by video id, read when they are asked for."""

    def __init__(self, path: Path) -> None:
        import numpy as np

        self.path = path
        try:
            self._arrays = np.load(path, allow_pickle=False)
        except FileNotFoundError:
            raise FewcapError(f"{path}: there is no such file of packed features.") from None
        except (OSError, ValueError, zipfile.BadZipFile, EOFError) as error:
            raise FewcapError(f"{path}: not an npz file of packed features ({error}).") from None
        if not isinstance(self._arrays, np.lib.npyio.NpzFile):
            raise FewcapError(f"{path}: holds a single array; packed features are an npz file with an array per video.")
        self.ids = tuple(name for name in self._arrays.files if not name.endswith(_SCALE))
        self._known = frozenset(self._arrays.files)
        if not self.ids:
            raise FewcapError(f"{path}: holds no features.")

    def __contains__(self, video_id: object) -> bool:
        return video_id in self._known and not str(video_id).endswith(_SCALE)

    def __len__(self) -> int:
        return len(self.ids)

    def __getitem__(self, video_id: str) -> np.ndarray:
        """The features of one video as float32 [n, d]."""
        import numpy as np

        if video_id not in self:
            raise FewcapError(f"{self.path}: has no features of video '{video_id}'.")
        packed = self._arrays[video_id]
        if packed.ndim != 2:
            raise FewcapError(f"{self.path}: features of '{video_id}' have shape {packed.shape}, not [n, d].")
        if packed.dtype == np.uint8:
            if video_id + _SCALE not in self._known:
                raise FewcapError(f"{self.path}: '{video_id}' is packed as uint8 but has no '{video_id}{_SCALE}'.")
            return packed.astype(np.float32) / 255.0 * np.float32(self._arrays[video_id + _SCALE])
        return packed.astype(np.float32)
