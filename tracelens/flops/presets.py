"""Which model does the user mean: a preset name, a configuration file, or a mapping of numbers?"""

import difflib
import json
import re
import tomllib
from collections.abc import Mapping
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any

from tracelens.errors import InputError, UsageError
from tracelens.flops.huggingface import is_config, shape_of_config
from tracelens.flops.layerlist import LayerList, is_layer_list
from tracelens.flops.models import ModelShape

_MAX_CONFIG_BYTES = 1 << 24
_DECORATION = re.compile(r"(-(hf|instruct|chat|base|it|bf16|fp8|v0\.\d))+$")

Model = ModelShape | LayerList
"""What the FLOPs of a token are counted for."""
ModelLike = Model | str | Path | Mapping[str, Any]
"""What the user may give as a model."""


def load_model(model: ModelLike) -> Model:
    """Return the shape of a model.

    Args:
        model: a preset name (``"llama3-8b"``), the path of a Hugging Face ``config.json`` or of the
            folder that holds one, a mapping with the fields of either, or a shape.

    Raises:
        UsageError: if the name is unknown or a field is missing.
        InputError: if the file is not a JSON object.
    """
    if isinstance(model, ModelShape | LayerList):
        return model
    if isinstance(model, Mapping):
        return _from_mapping(model)
    path = Path(model)
    if isinstance(model, Path) or _is_file_like(model):
        return _from_mapping(_read_config(path))
    return _preset(model)


@cache
def preset_names() -> tuple[str, ...]:
    """Return the names of all presets."""
    return tuple(_presets())


def _is_file_like(text: str) -> bool:
    try:
        return text.endswith(".json") or Path(text).exists()
    except (OSError, ValueError):
        return False


def _from_mapping(values: Mapping[str, Any]) -> Model:
    if is_layer_list(values):
        return LayerList.from_mapping(values)
    return shape_of_config(values) if is_config(values) else ModelShape.from_mapping(values)


def _read_config(path: Path) -> Mapping[str, Any]:
    if path.is_dir():
        path = path / "config.json"
    try:
        if path.stat().st_size > _MAX_CONFIG_BYTES:
            raise InputError(f"{path}: too large for a model configuration")
        values = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise InputError(f"{path}: {error.strerror or 'cannot be read'}") from error
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path}: not JSON", hint="give the config.json of the model") from error
    if not isinstance(values, dict):
        raise InputError(f"{path}: not a JSON object", hint="give the config.json of the model")
    return values


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
