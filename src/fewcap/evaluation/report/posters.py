"""A still of a clip, small enough to live inside the page."""

from __future__ import annotations

import base64
import io
import logging
from pathlib import Path

log = logging.getLogger("fewcap.evaluation")

SHORT_SIDE, LONG_SIDE, QUALITY = 180, 480, 72


def poster(path: Path | None) -> str | None:
    """A JPEG of the middle of the clip as a data URI, or None when there is no clip to be read."""
    if path is None or not path.exists():
        return None
    from PIL import Image

    from fewcap.core.config.features import FeaturesConfig
    from fewcap.features.picture import View
    from fewcap.features.video import Views, sample_video

    try:
        one_frame = FeaturesConfig.model_validate({"min_frames": 1, "max_frames": 1})
        view = View(SHORT_SIDE, LONG_SIDE, keep_shape=True)
        frames = sample_video(path, one_frame, Views(frames=view)).frames  # [1, H, W, 3]
        if not len(frames):
            return None
        buffer = io.BytesIO()
        Image.fromarray(frames[len(frames) // 2]).save(buffer, "JPEG", quality=QUALITY, optimize=True)
    except Exception as error:  # a clip that went bad after its features were taken must not cost the report
        log.warning("%s: no still for the report (%s)", path, error)
        return None
    return "data:image/jpeg;base64," + base64.b64encode(buffer.getvalue()).decode("ascii")
