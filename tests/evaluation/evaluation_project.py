"""A finished project written by hand, so that evaluation is tested without the stages to its left."""

from __future__ import annotations

import random
from pathlib import Path

NOUNS = ["man", "woman", "dog", "cat", "boy", "girl"]
VERBS = ["running", "cooking", "singing", "jumping", "swimming"]
PLACES = ["in a park", "on a stage", "in a kitchen", "near a lake"]


def _world(index: int) -> tuple[str, list[str]]:
    """What a made-up video shows, and four ways to say it."""
    noun, verb, place = NOUNS[index % 6], VERBS[index % 5], PLACES[index % 4]
    said = [
        f"a {noun} is {verb} {place}",
        f"the {noun} is {verb}",
        f"a {noun} {place} is {verb}",
        f"{noun} {verb} {place}",
    ]
    return noun, said


def _write_clip(path: Path, shade: int, *, frames: int = 12, size: int = 96) -> None:
    import av
    import numpy as np

    with av.open(str(path), "w") as container:
        stream = container.add_stream("mpeg4", rate=8)
        stream.width, stream.height, stream.pix_fmt = size + 32, size, "yuv420p"
        for number in range(frames):
            picture = np.full((size, size + 32, 3), 60, dtype=np.uint8)
            picture[..., 0] = shade * 37 % 255
            left = 8 + number * 6
            picture[30:60, left : left + 30] = (240, 200, (shade * 71) % 255)
            for packet in stream.encode(av.VideoFrame.from_ndarray(picture, format="rgb24")):
                container.mux(packet)
        for packet in stream.encode():
            container.mux(packet)


def make_project(folder: Path, *, seed: int = 0, accuracy: float = 0.7, clips: bool = True) -> Path:
    """A finished project written by hand: every artefact of the stages to the left of evaluation."""
    import torch

    from fewcap.core.store import Stage, Workspace, run_stage

    draw = random.Random(seed)
    splits = ["train"] * 24 + ["val"] * 6 + ["test"] * 18
    rows = []
    for index, split in enumerate(splits):
        said = _world(index)[1]
        path = f"videos/clip{index:02d}.mp4" if clips and split == "test" else None
        captions = said[:1] if split == "train" else said
        rows.append({"id": f"clip{index:02d}", "split": split, "path": path, "captions": captions, "sha256": "0" * 64})

    def data(workspace: Workspace) -> dict[str, int]:
        workspace.write_jsonl("videos.jsonl", rows)
        workspace.write_jsonl("problems.jsonl", [])
        workspace.write_json("sources.json", {"source": "folder", "packed_features": None})
        for index, row in enumerate(rows):
            if row["path"]:
                with workspace.file(str(row["path"])) as path:
                    with_suffix = path.with_suffix(".mp4")
                    _write_clip(with_suffix, index)
                    if with_suffix != path:
                        with_suffix.rename(path)
        return {"videos": len(rows)}

    def features(workspace: Workspace) -> dict[str, int]:
        torch.manual_seed(0)
        backbone = {"name": "colours", "dim": 8, "hash": "abc"}
        directions = torch.randn(60, 8)
        tensors, videos = {}, {}
        for index, row in enumerate(rows):
            tensors[f"appearance/{row['id']}"] = (directions[index % 6] + 0.2 * torch.randn(5, 8)).half()
            videos[row["id"]] = {"shard": "shards/00000.safetensors", "appearance": 5}
        workspace.write_tensors("shards/00000.safetensors", tensors)
        workspace.write_json("index.json", {"backbones": {"appearance": backbone}, "videos": videos})
        return {"videos": len(rows)}

    def pseudo(workspace: Workspace) -> dict[str, int]:
        found = []
        for index, row in enumerate(rows[:24]):
            noun, said = _world(index)
            verb = VERBS[index % 5]
            edits = [  # from "noun verb" to "the young noun is verb"; position 0 is the start token
                {"action": "insert", "position": 1, "word": "a", "probability": 0.61},
                {"action": "insert", "position": 2, "word": "very", "probability": 0.34},
                {"action": "insert", "position": 3, "word": "young", "probability": 0.47},
                {"action": "replace", "position": 1, "word": "the", "probability": 0.52, "instead_of": "a"},
                {"action": "insert", "position": 5, "word": "is", "probability": 0.88},
                {"action": "delete", "position": 2, "word": "very", "probability": 0.22},
            ]
            sentence = {"text": f"the young {noun} is {verb}", "keywords": [noun, verb]}
            sentence |= {"source": said[0], "edits": edits, "lm_score": -1.2, "video_score": 0.41}
            rejected = [{"text": "a a a <b>man</b>", "why": "repeats a word"}]
            found.append({"id": row["id"], "sentences": [sentence], "rejected": rejected})
        workspace.write_jsonl("pseudo.jsonl", found)
        return {"videos": len(found), "sentences": len(found)}

    def model(workspace: Workspace) -> dict[str, int]:
        history = [
            {
                "epoch": epoch + 1,
                "loss": 4.0 / (1 + 0.4 * epoch) + 0.3,
                "sentence_loss": 4.0 / (1 + 0.4 * epoch),
                "word_loss": 0.3,
                "learning_rate": 5e-4 * (1 - epoch / 12),
                "score": None if epoch == 0 else 20 + 45 * (1 - 0.7**epoch),
                "smoothed": None,
            }
            for epoch in range(12)
        ]
        workspace.write_jsonl("metrics.jsonl", history)
        return {"epochs": 12}

    def captions(workspace: Workspace) -> dict[str, int]:
        made = []
        for index, row in enumerate(rows):
            if row["split"] != "test":
                continue
            noun, said = _world(index if draw.random() < accuracy else index + 1)
            words = said[0].split()
            made.append(
                {
                    "id": row["id"],
                    "caption": said[0],
                    "score": -0.8 - draw.random(),
                    "keywords": [{"word": noun, "weight": 0.6}, {"word": VERBS[index % 5], "weight": 0.25}],
                    "words": [{"word": word, "video_share": round(draw.random(), 3)} for word in words],
                    "alternatives": [{"caption": text, "score": -1.5 - n} for n, text in enumerate(said[1:])],
                }
            )
        workspace.write_jsonl("captions.jsonl", made)
        return {"captions": len(made)}

    builders = {"data": data, "features": features, "pseudo": pseudo, "model": model, "captions": captions}
    for kind, build in builders.items():
        run_stage(Stage(folder / kind, kind, inputs={}, config={"seed": seed, "accuracy": accuracy}), build)
    (folder / "fewcap.yaml").write_text("seed: 0\n", encoding="utf-8")
    return folder
