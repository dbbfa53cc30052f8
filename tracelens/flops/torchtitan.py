"""What model and job does a torchtitan configuration (TOML) describe?"""

from collections.abc import Mapping
from typing import Any

from tracelens.errors import UsageError

Table = Mapping[str, Any]

_FLAVORS = {
    ("llama2", "7b"): "Llama-2-7B",
    ("llama2", "13b"): "Llama-2-13B",
    ("llama2", "70b"): "Llama-2-70B",
    ("llama3", "8b"): "Llama-3-8B",
    ("llama3", "70b"): "Llama-3-70B",
    ("llama3", "405b"): "Llama-3.1-405B",
    ("deepseekv3", "16b"): "DeepSeek-V2-Lite",
    ("deepseekv3", "236b"): "DeepSeek-V2",
    ("deepseekv3", "671b"): "DeepSeek-V3",
    ("qwen3", "06b"): "Qwen3-0.6B",
    ("qwen3", "17b"): "Qwen3-1.7B",
    ("qwen3", "4b"): "Qwen3-4B",
    ("qwen3", "8b"): "Qwen3-8B",
    ("qwen3", "14b"): "Qwen3-14B",
    ("qwen3", "32b"): "Qwen3-32B",
    ("qwen3", "30ba3b"): "Qwen3-30B-A3B",
    ("qwen3", "235ba22b"): "Qwen3-235B-A22B",
    ("gptoss", "20b"): "GPT-OSS-20B",
    ("gptoss", "120b"): "GPT-OSS-120B",
}
_DEGREES = {
    "tp": "tensor_parallel_degree",
    "pp": "pipeline_parallel_degree",
    "cp": "context_parallel_degree",
    "ep": "expert_parallel_degree",
    "dp_shard": "data_parallel_shard_degree",
    "dp_replicate": "data_parallel_replicate_degree",
}


def is_torchtitan(values: Table) -> bool:
    """Tell a torchtitan configuration from a table of our own field names."""
    model = values.get("model")
    return isinstance(model, Mapping) and "flavor" in model


def preset_of_torchtitan(name: str, flavor: str) -> str:
    """Return the preset that a model name and flavor of torchtitan stand for.

    Raises:
        UsageError: if no preset is known.
    """
    found = _FLAVORS.get((_plain(name), _plain(flavor)))
    if found is None:
        known = ", ".join(sorted({family for family, _ in _FLAVORS}))
        raise UsageError(
            f"torchtitan model {name} {flavor} is not known",
            hint=f"give --model with a config.json or a layer list; known families: {known}",
        )
    return found


def model_of_torchtitan(values: Table) -> str:
    """Return the preset of a configuration.

    Raises:
        UsageError: if no preset is known.
    """
    model = values["model"]
    return preset_of_torchtitan(str(model.get("name", "")), str(model.get("flavor", "")))


def job_of_torchtitan(values: Table) -> dict[str, Any]:
    """Return what a configuration says of the job: batch, sequence length and mesh."""
    training, parallelism = (_table(values, name) for name in ("training", "parallelism"))
    degrees = {name: _number(parallelism, key) for name, key in _DEGREES.items()}
    job: dict[str, Any] = {
        "seq_len": _number(training, "seq_len"),
        "global_batch_size": _number(training, "global_batch_size"),
        "micro_batch_size": _number(training, "local_batch_size"),
        "mesh": {name: size for name, size in degrees.items() if size},
    }
    return {name: value for name, value in job.items() if value}


def _table(values: Table, name: str) -> Table:
    found = values.get(name)
    return found if isinstance(found, Mapping) else {}


def _number(values: Table, name: str) -> int:
    value = values.get(name)
    if isinstance(value, bool) or not isinstance(value, int):
        return 0
    return value if 0 < value < 1 << 40 else 0


def _plain(text: str) -> str:
    return "".join(character for character in text.lower() if character.isalnum())
