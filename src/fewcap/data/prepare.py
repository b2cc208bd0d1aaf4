"""The first stage: from videos and annotation files to one documented list of videos with the captions that exist."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from fewcap.core.config.data import DataConfig
from fewcap.core.errors import FewcapError, nearest
from fewcap.core.store import Manifest, Stage, Workspace, read_json, read_jsonl, run_stage, sha256_file
from fewcap.core.types import SPLITS, Split, VideoItem
from fewcap.data import folder, msrvtt, msvd, synthetic, vatex
from fewcap.data.annotations import AnnotatedVideo, Annotations, Problems, legible
from fewcap.data.archives import unpack
from fewcap.data.choose import RULE, choose_sentences, noisy_sentences, seeded_split
from fewcap.data.media import Media, Source, listing_hash
from fewcap.data.packed import PackedFeatures
from fewcap.data.probe import probe_all

log = logging.getLogger("fewcap.data")

KIND = "data"
VIDEOS, PROBLEMS, SOURCES = "videos.jsonl", "problems.jsonl", "sources.json"
TRAIN: Split = "train"
CLIPS, FRAMES = "videos", "frames"  # rendered clips; images unpacked from tar files


def prepare(out: Path, config: DataConfig, *, seed: int) -> Manifest:
    """Writes ``videos.jsonl`` and ``problems.jsonl``, and renders or unpacks what has to be a file."""
    config = config.relative_to(Path.cwd())
    # A seed that decides nothing must not make features of the same videos stale.
    seeded = config.source in ("synthetic", "folder") or config.split == "seeded"
    stage = Stage(
        out,
        KIND,
        inputs=_input_hashes(config),
        config={**config.model_dump(mode="json"), "seed": seed if seeded else None},
    )
    return run_stage(stage, lambda workspace: _build(workspace, config, seed if seeded else 0))


@dataclass(frozen=True)
class Dataset:
    """The videos of a prepared data folder with the captions that exist for them."""

    folder: Path
    items: tuple[VideoItem, ...]
    hashes: Mapping[str, str | None]  # video id -> sha256 of its file; None: features only
    source: str  # data.source
    packed_features: Path | None  # the npz file with features of videos that have no file

    def split(self, name: Split) -> tuple[VideoItem, ...]:
        """The videos of one split, in the order of the annotation files."""
        if name not in SPLITS:
            raise FewcapError(f"'{name}' is no split; the splits are {', '.join(SPLITS)}.{nearest(name, SPLITS)}")
        return tuple(item for item in self.items if item.split == name)

    @cached_property
    def by_id(self) -> dict[str, VideoItem]:
        return {item.id: item for item in self.items}


def read_dataset(folder: Path) -> Dataset:
    """Reads what ``prepare`` wrote; the folder must be complete."""
    manifest = Manifest.read(folder)
    if manifest.kind != KIND:
        raise FewcapError(f"{folder}: holds '{manifest.kind}', not prepared data; name the data folder of the project.")
    rows = read_jsonl(folder / VIDEOS)
    sources = read_json(folder / SOURCES)
    packed = sources["packed_features"]
    return Dataset(
        folder,
        tuple(
            VideoItem(
                row["id"],
                row["split"],
                folder.absolute() / row["path"] if row["path"] is not None else None,
                tuple(row["captions"]),
                row.get("corpus", 0) > 0,
            )
            for row in rows
        ),
        {row["id"]: row["sha256"] for row in rows},
        sources["source"],
        Path(packed["path"]) if packed is not None else None,
    )


def read_annotations(config: DataConfig, seed: int, problems: Problems) -> Annotations:
    """What the annotation files say, whether or not the videos can be had."""
    annotations = Annotations(problems)
    if config.source == "synthetic":
        synthetic.annotate(annotations, config.synthetic, seed)
    elif config.source == "folder":
        folder.read(
            annotations,
            config.captions,
            video=config.video_column,
            caption=config.caption_column,
            split=config.split_column,
        )
    else:
        {"msvd": msvd, "msrvtt": msrvtt, "vatex": vatex}[config.source].read(annotations, config.captions)
    if not annotations.videos:
        raise FewcapError(f"{_named(config.captions)}: no captions found.")
    return annotations


def _input_hashes(config: DataConfig) -> dict[str, str]:
    hashes = {}
    for number, path in enumerate(config.captions):
        if path.is_dir():
            raise FewcapError(f"{path} is a folder; name the captions file in it.")
        if not path.exists():
            raise FewcapError(f"{path}: there is no such captions file.")
        hashes[f"captions {number}: {path.name}"] = sha256_file(path)
    for number, place in enumerate(config.videos):
        hashes[f"videos {number}: {legible(place.name)}"] = listing_hash(place)
    if config.packed_features is not None:
        if not config.packed_features.is_file():
            raise FewcapError(f"{config.packed_features}: there is no such file of packed features.")
        hashes[f"packed features: {config.packed_features.name}"] = sha256_file(config.packed_features)
    for number, corpus in enumerate(config.further):
        hashes |= {f"further {number}, {name}": value for name, value in _input_hashes(corpus).items()}
    return hashes


def _build(workspace: Workspace, config: DataConfig, seed: int) -> dict[str, Any]:
    problems = Problems()
    places = config.videos
    if config.source == "synthetic":
        places = (workspace.path(CLIPS),)
        synthetic.render(places[0], config.synthetic, seed)
    corpora = (config, *config.further)
    found: list[tuple[AnnotatedVideo, Source]] = []
    corpus_of: dict[str, int] = {}
    for number, corpus in enumerate(corpora):
        for video, source in _find(corpus, places if corpus is config else corpus.videos, seed, problems):
            if video.id in corpus_of:
                problems.add("duplicate_id", video.where, video.id, "the one of an earlier corpus stays")
            elif number and video.split not in (None, "train"):
                problems.add("other_split", video.where, f"{video.id}: {video.split}", "left out")
            else:
                found.append((video, source))
                corpus_of[video.id] = number
    unpacked = unpack(workspace, FRAMES, [(video.id, source) for video, source in found])
    paths = {video.id: unpacked.get(video.id, source.path) for video, source in found}
    hashes = _without_broken(workspace, found, paths, problems, decode=config.source != "synthetic")
    if not found:
        first = problems.of_kind("not_a_video")[0].value
        raise FewcapError(f"{_named(places)}: no file is a video that can be decoded; the first one: {first}.")
    rows: list[dict[str, Any]] = []
    for number, corpus in enumerate(corpora):
        videos = {video.id: video for video, _ in found if corpus_of[video.id] == number}
        if number:
            splits = dict.fromkeys(videos, TRAIN)
        else:
            splits = assign_splits(list(videos.values()), config, seed, problems)
        of_corpus = _rows(workspace, videos, splits, paths, hashes, corpus, problems)
        rows += [{**row, "corpus": number} if number else row for row in of_corpus]
    workspace.write_jsonl(VIDEOS, rows)
    workspace.write_jsonl(PROBLEMS, _portable(problems.rows(), corpora))
    workspace.write_json(SOURCES, _sources(config))
    _report(rows, problems)
    return {
        "videos": len(rows),
        **{split: sum(row["split"] == split for row in rows) for split in SPLITS},
        "captions": {split: sum(len(row["captions"]) for row in rows if row["split"] == split) for split in SPLITS},
        "choice": {"sentences": config.sentences, "rule": RULE, "cleaning": config.cleaning},
        "problems": problems.counts(),
    }


def _find(
    config: DataConfig, places: Sequence[Path], seed: int, problems: Problems
) -> list[tuple[AnnotatedVideo, Source]]:
    """The videos of one corpus that have captions and can be had."""
    annotations = read_annotations(config, seed, problems)
    packed = PackedFeatures(config.packed_features) if config.packed_features is not None else None
    found = locate(annotations, Media(places, packed), ids_from_files=config.source == "folder")
    if not found:
        raise FewcapError(
            f"None of the {len(annotations.videos)} videos that {_named(config.captions)} names is in "
            f"{_named([*places, *([config.packed_features] if config.packed_features else [])])}; "
            f"for example '{next(iter(annotations.videos))}'."
        )
    return found


def locate(annotations: Annotations, media: Media, *, ids_from_files: bool) -> list[tuple[AnnotatedVideo, Source]]:
    """Pairs videos that have captions with what can be had; notes those without the one or the other.

    With ``ids_from_files`` a video is called what its file is called, so that ``a.mp4`` and ``a`` are one video.
    """
    problems = annotations.problems
    found: dict[str, tuple[AnnotatedVideo, Source]] = {}
    wanted: set[Source] = set()
    for video in annotations.videos.values():
        sources = media.find((video.id, *video.aliases))
        if not sources:
            problems.add("caption_without_video", video.where, video.id, "left out: the video is not there")
            continue
        source = min(sources, key=lambda source: source.place)
        rivals = [rival for rival in sources if rival.place == source.place]
        wanted.update(sources)
        if len(rivals) > 1:
            names = ", ".join(rival.path.name if rival.path else rival.id for rival in rivals)
            problems.add("ambiguous_name", video.where, video.id, f"may be {names}; the first was taken")
        if not video.captions:
            problems.add("video_without_caption", video.where, video.id, "left out")
            continue
        if ids_from_files and source.id in found:
            first = found[source.id][0]
            first.captions.extend(video.captions)
            if video.split not in (None, first.split) and first.split is not None:
                problems.add("conflicting_split", video.where, f"{video.id}: {video.split}", f"stays in {first.split}")
            first.split = first.split or video.split
            continue
        if ids_from_files:
            video = AnnotatedVideo(source.id, video.where, list(video.captions), video.split)
        found[video.id] = (video, source)
    for name in media.unnameable:
        problems.add("broken_name", name, name, "left out: rename the file")
    for source in media.sources:
        if source not in wanted:
            place = source.path or source.archive or (media.packed.path if media.packed else source.id)
            problems.add("video_without_caption", str(place), source.id, "left out")
    return list(found.values())


def _without_broken(
    workspace: Workspace,
    found: list[tuple[AnnotatedVideo, Source]],
    paths: Mapping[str, Path | None],
    problems: Problems,
    *,
    decode: bool,
) -> dict[str, str | None]:
    """Takes files that no decoder opens out of ``found``; returns the hashes of the rest."""
    files = [(video.id, path) for video, _ in found if (path := paths[video.id]) is not None]
    probed = dict(
        zip(
            (video_id for video_id, _ in files),
            probe_all(workspace, [path for _, path in files], decode=decode),
            strict=True,
        )
    )
    for video_id, path in files:
        if (fault := probed[video_id].fault) is not None:
            problems.add("not_a_video", video_id, f"{path.name}: {fault}", "left out")
    found[:] = [pair for pair in found if pair[0].id not in probed or probed[pair[0].id].fault is None]
    return {video.id: probed[video.id].sha256 if video.id in probed else None for video, _ in found}


def assign_splits(
    videos: Sequence[AnnotatedVideo], config: DataConfig, seed: int, problems: Problems
) -> dict[str, Split]:
    """The stated splits; a seeded one when none is stated, and validation out of training when only that is missing."""
    stated = {video.id: video.split for video in videos if video.split is not None}
    if config.split == "seeded" or not stated:
        splits = seeded_split([video.id for video in videos], seed, config.val_share, config.test_share)
    else:
        splits = stated
        for video in videos:
            if video.split is None:
                problems.add("missing_split", video.where, video.id, "put into train")
                splits[video.id] = "train"
        training = [video_id for video_id, split in splits.items() if split == "train"]
        if "val" not in splits.values() and len(training) > 1 and config.val_share > 0:
            moved = {v for v, split in seeded_split(training, seed, config.val_share, 0.0).items() if split == "val"}
            splits.update(dict.fromkeys(moved, "val"))
            if moved:
                problems.add("empty_split", "val", "no video", f"{len(moved)} training videos became validation")
    counts = Counter(splits.values())
    for split in SPLITS:
        if not counts[split]:
            problems.add("empty_split", split, "no video", "left empty")
    return {video.id: splits[video.id] for video in videos}


def _rows(
    workspace: Workspace,
    videos: Mapping[str, AnnotatedVideo],
    splits: Mapping[str, Split],
    paths: Mapping[str, Path | None],
    hashes: Mapping[str, str | None],
    config: DataConfig,
    problems: Problems,
) -> list[dict[str, Any]]:
    """The rows of ``videos.jsonl``: k sentences for training videos, every reference for the others."""
    noise: set[str] = set()
    if config.cleaning:
        training = [video.captions for video in videos.values() if splits[video.id] == "train"]
        noise = noisy_sentences(training, config.cleaning_share)
    rows = []
    for video in videos.values():
        row: dict[str, Any] = {
            "id": video.id,
            "split": splits[video.id],
            "path": _recorded(paths[video.id], workspace.folder.resolve()),
            "captions": video.captions,
            "sha256": hashes[video.id],
        }
        if splits[video.id] == "train":
            chosen = choose_sentences(video.id, video.captions, config.sentences, noise)
            for position in choose_sentences(video.id, video.captions, config.sentences):
                if position not in chosen:
                    problems.add("cleaned_caption", video.id, video.captions[position], "another sentence was chosen")
            row["captions"] = [video.captions[position] for position in chosen]
            row |= {"chosen": chosen, "available": len(video.captions)}
        rows.append(row)
    return rows


def _recorded(path: Path | None, inside: Path) -> str | None:
    if path is None:
        return None
    path = path.absolute()
    return path.relative_to(inside).as_posix() if path.is_relative_to(inside) else str(path)


def _sources(config: DataConfig) -> dict[str, Any]:
    packed = config.packed_features
    return {
        "source": config.source,
        "captions": [path.name for path in config.captions],
        "packed_features": {"path": str(packed), "sha256": sha256_file(packed)} if packed is not None else None,
    }


def _portable(rows: list[dict[str, str]], corpora: Sequence[DataConfig]) -> list[dict[str, str]]:
    """Problems with the names of files instead of their full paths, which say nothing on another machine."""
    names = {str(path): path.name for corpus in corpora for path in corpus.captions}
    names |= {f"{place}/": "" for corpus in corpora for place in corpus.videos}
    for row in rows:
        for path, name in names.items():
            row["where"] = row["where"].replace(path, name)
    return rows


def _report(rows: Sequence[Mapping[str, Any]], problems: Problems) -> None:
    counts = Counter(row["split"] for row in rows)
    log.info("data: %s", ", ".join(f"{counts[split]} {split}" for split in SPLITS) + " videos")
    if len(problems):
        listed = ", ".join(f"{count} {kind.replace('_', ' ')}" for kind, count in problems.counts().items())
        log.warning("data: %d problems (%s); each is listed in %s", len(problems), listed, PROBLEMS)


def _named(paths: Sequence[Path]) -> str:
    return ", ".join(map(str, paths))
