"""Which model does the user mean: a preset name, a configuration file, or a mapping of numbers?"""

import difflib
import re
import tomllib
from collections.abc import Mapping
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any

from tracelens.errors import UsageError
from tracelens.flops.configfile import read_config
from tracelens.flops.huggingface import is_config, shape_of_config
from tracelens.flops.layerlist import LayerList, is_layer_list
from tracelens.flops.megatron import shape_of_arguments
from tracelens.flops.models import ModelShape
from tracelens.flops.torchtitan import is_torchtitan, model_of_torchtitan

_DECORATION = re.compile(r"(-(hf|instruct|chat|base|it|bf16|fp8|v0\.\d))+$")

Model = ModelShape | LayerList
"""What the FLOPs of a token are counted for."""
ModelLike = Model | str | Path | Mapping[str, Any]
"""What the user may give as a model."""


def load_model(model: ModelLike) -> Model:
    """Return the shape of a model.

    Args:
        model: a preset name (``"llama3-8b"``); the path of a Hugging Face ``config.json`` or of
            the folder that holds one, of Megatron arguments, of a torchtitan TOML, or of a list of
            layers; a mapping with the fields of one of them; or a shape.

    Raises:
        UsageError: if the name is unknown or a field is missing.
        InputError: if the file holds none of them.
    """
    if isinstance(model, ModelShape | LayerList):
        return model
    if isinstance(model, Mapping):
        return _from_mapping(model)
    path = Path(model)
    if isinstance(model, Path) or _is_file_like(model):
        return _from_mapping(read_config(path))
    return _preset(model)


@cache
def preset_names() -> tuple[str, ...]:
    """Return the names of all presets."""
    return tuple(_presets())


def _is_file_like(text: str) -> bool:
    try:
        return text.endswith((".json", ".toml")) or Path(text).exists()
    except (OSError, ValueError):
        return False


def _from_mapping(values: Mapping[str, Any]) -> Model:
    if is_layer_list(values):
        return LayerList.from_mapping(values)
    if "megatron" in values:
        return shape_of_arguments(values["megatron"])
    if is_torchtitan(values):
        return _preset(model_of_torchtitan(values))
    return shape_of_config(values) if is_config(values) else ModelShape.from_mapping(values)


@cache
def _presets() -> dict[str, dict[str, Any]]:
    text = resources.files("tracelens.flops").joinpath("presets.toml").read_text(encoding="utf-8")
    return tomllib.loads(text)


@cache
def _names() -> dict[str, str]:
    names = {}
    for name, body in _presets().items():
        for spelling in (name, *body.get("aliases", ())):
            names[_plain(spelling)] = name
    return names


def _preset(name: str) -> ModelShape:
    bare = name.strip().lower().rpartition("/")[2].removeprefix("meta-")
    for spelling in (bare, _DECORATION.sub("", bare)):
        found = _names().get(_plain(spelling))
        if found:
            body = _presets()[found]
            fields = {key: body[key] for key in body if key not in {"source", "aliases"}}
            return ModelShape.from_mapping(fields)
    near = difflib.get_close_matches(_plain(bare), _names(), n=3, cutoff=0.5)
    names = list(dict.fromkeys(_names()[key] for key in near)) or list(preset_names())
    raise UsageError(
        f"unknown model {name!r}",
        hint=f"known: {', '.join(names)}; or give the path of a config.json",
    )


def _plain(name: str) -> str:
    return "".join(character for character in name.lower() if character.isalnum())
