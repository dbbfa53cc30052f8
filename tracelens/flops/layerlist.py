"""How is a model described that is no plain decoder: as a list of its layers?

For what no configuration covers (vision transformers, encoders, two towers) a user lists the matrix
products of each layer, so that every architecture has a way in::

    {"layers": [{"repeat": 24, "linear": [[1024, 4096], [4096, 1024]],
                 "attention": {"heads": 16, "qk_dim": 64, "causal": false}}],
     "head": [1024, 1000]}
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

from tracelens.errors import UsageError
from tracelens.flops.parts import TABLES, Part

EXAMPLE = (
    '{"layers": [{"repeat": 24, "linear": [[1024, 4096], [4096, 1024]], '
    '"attention": {"heads": 16, "qk_dim": 64}}], "head": [1024, 32000]}'
)
_HINT = f"a layer list looks like {EXAMPLE}"
_LIMIT = 1 << 40
_MOST_LAYERS = 10_000
_TOP = {"layers", "head", "embedding", "tied_embeddings", "frozen", "name"}
_LAYER = {"repeat", "linear", "attention", "flop_per_token", "name", "parameters"}
_ATTENTION = {"heads", "qk_dim", "v_dim", "window", "causal"}


@dataclass(frozen=True, kw_only=True)
class LayerList:
    """A model as the list of its parts.

    Attributes:
        parts: every part, in the order of the forward pass.
        layers: number of layers.
        hidden: inputs of the head, or of the first matrix.
        heads: attention heads of the first layer that has any.
        vocab: outputs of the head.
        tied_embeddings: whether the head is the embedding table.
        frozen: whether the weights get no gradients.
    """

    parts: tuple[Part, ...]
    layers: int
    hidden: int
    heads: int
    vocab: int
    tied_embeddings: bool = False
    frozen: bool = False

    @property
    def params_total(self) -> int:
        """All parameters that the list names."""
        return sum(part.weights for part in self.parts)

    @property
    def params_mm(self) -> int:
        """Parameters that multiply a token."""
        return sum(part.weights for part in self.parts if part.name not in {*TABLES, "norms"})

    @classmethod
    def from_mapping(cls, values: Mapping[str, Any]) -> Self:
        """Build the list.

        Raises:
            UsageError: naming what is missing or not understood.
        """
        _known("model", values, _TOP)
        entries = values.get("layers")
        if not isinstance(entries, list) or not entries:
            raise UsageError("model: 'layers' must be a list of layers", hint=_HINT)
        parts, layer, heads = [], 0, 0
        for position, entry in enumerate(entries):
            where = f"model: layers[{position}]"
            if not isinstance(entry, Mapping):
                raise UsageError(f"{where} must be an object", hint=_HINT)
            _known(where, entry, _LAYER)
            for _ in range(_number(where, entry, "repeat", 1, _MOST_LAYERS - layer)):
                parts += _layer(where, entry, layer)
                layer += 1
            attention = entry.get("attention") or {}
            heads = heads or _number(where, attention, "heads", 0)
        head = _matrix("model: head", values["head"]) if values.get("head") else (0, 0)
        if head[0]:
            parts.append(Part(name="head", weights=head[0] * head[1]))
        if values.get("embedding"):
            table = _matrix("model: embedding", values["embedding"])
            parts.insert(0, Part(name="embedding", weights=table[0] * table[1]))
        return cls(
            parts=tuple(part for part in parts if part.weights or part.width or part.core_flop),
            layers=layer,
            hidden=head[0],
            heads=heads,
            vocab=head[1],
            tied_embeddings=bool(values.get("tied_embeddings")),
            frozen=bool(values.get("frozen")),
        )


def is_layer_list(values: Mapping[str, Any]) -> bool:
    """Tell a layer list from a mapping of the fields of a decoder."""
    return isinstance(values.get("layers"), list)


def _layer(where: str, entry: Mapping[str, Any], layer: int) -> list[Part]:
    matrices = entry.get("linear") or []
    if not isinstance(matrices, list):
        raise UsageError(f"{where}: 'linear' must be a list of [in, out]", hint=_HINT)
    found = []
    for matrix in matrices:
        rows, columns = _matrix(f"{where}: linear", matrix)
        found.append(Part(name="linear", layer=layer, weights=rows * columns))
    attention = entry.get("attention")
    if attention is not None:
        found += _attention(f"{where}: attention", attention, layer)
    core = _number(where, entry, "flop_per_token", 0)
    vectors = _number(where, entry, "parameters", 0)
    found.append(Part(name="core", layer=layer, core_flop=core))
    found.append(Part(name="norms", layer=layer, weights=vectors))
    return found


def _attention(where: str, attention: Any, layer: int) -> list[Part]:
    if not isinstance(attention, Mapping):
        raise UsageError(f"{where} must be an object", hint=_HINT)
    _known(where, attention, _ATTENTION)
    heads, qk_dim = (_number(where, attention, name) for name in ("heads", "qk_dim"))
    v_dim = _number(where, attention, "v_dim", qk_dim)
    window = _number(where, attention, "window", 0)
    causal = attention.get("causal", True) is not False
    return [
        Part(name=name, layer=layer, width=heads * dim, window=window, is_causal=causal)
        for name, dim in (("scores", qk_dim), ("values", v_dim))
    ]


def _known(where: str, values: Mapping[str, Any], names: set[str]) -> None:
    unknown = sorted(set(map(str, values)) - names)
    if unknown:
        known = ", ".join(sorted(names))
        raise UsageError(f"{where}: unknown field {unknown[0]!r}", hint=f"known: {known}")


def _matrix(where: str, value: Any) -> tuple[int, int]:
    if not isinstance(value, list | tuple) or len(value) != 2:
        raise UsageError(f"{where}: {value!r} must be [in, out]", hint=_HINT)
    rows, columns = (_whole(where, item) for item in value)
    return rows, columns


def _number(
    where: str, values: Mapping[str, Any], name: str, default: int | None = None, most: int = _LIMIT
) -> int:
    value = values.get(name, default)
    if value is None:
        raise UsageError(f"{where}: {name!r} is missing", hint=_HINT)
    return _whole(f"{where}: {name!r}", value, most)


def _whole(where: str, value: Any, most: int = _LIMIT) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= most:
        raise UsageError(f"{where} must be a whole number up to {most}, not {value!r}")
    return value
