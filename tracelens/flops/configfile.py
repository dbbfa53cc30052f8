"""What does a configuration file hold: JSON, TOML, or the arguments of a Megatron job?"""

import json
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tracelens.errors import InputError
from tracelens.flops.megatron import read_arguments

_MAX_BYTES = 1 << 24
_HINT = (
    "give a Hugging Face config.json, Megatron arguments, a torchtitan TOML or a JSON file with "
    "a list of layers"
)


def read_config(path: Path) -> Mapping[str, Any]:
    """Return the values of a configuration file, Megatron arguments under the key ``megatron``.

    Raises:
        InputError: if the file cannot be read or holds none of them.
    """
    path = path / "config.json" if path.is_dir() else path
    try:
        with path.open("rb") as file:
            data = file.read(_MAX_BYTES + 1)
    except OSError as error:
        raise InputError(f"{path}: {error.strerror or 'cannot be read'}") from error
    if len(data) > _MAX_BYTES:
        raise InputError(f"{path}: not a model configuration: too large", hint=_HINT)
    text = data.decode("utf-8", errors="replace")
    if path.suffix == ".json" or text.lstrip().startswith("{"):
        return _json(path, text)
    if path.suffix == ".toml":
        return _toml(path, text)
    arguments = read_arguments(text)
    if "num_layers" not in arguments:
        raise InputError(f"{path}: not a model configuration", hint=_HINT)
    return {"megatron": arguments}


def _json(path: Path, text: str) -> Mapping[str, Any]:
    try:
        values = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path}: not JSON", hint=_HINT) from error
    if not isinstance(values, dict):
        raise InputError(f"{path}: not a JSON object", hint=_HINT)
    return values


def _toml(path: Path, text: str) -> Mapping[str, Any]:
    try:
        return tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise InputError(f"{path}: not TOML: {error}", hint=_HINT) from error
