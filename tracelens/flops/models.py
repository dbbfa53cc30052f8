"""How many parameters does a decoder model have, and how many of them multiply a token?

Totals follow the published configurations: with the right shape they equal the published counts
to the last parameter. Attention may be multi-head, grouped-query or latent (DeepSeek-V2).
"""

from collections.abc import Mapping
from dataclasses import MISSING, dataclass, fields
from functools import cached_property
from math import isfinite
from typing import Any, Self

from tracelens.errors import UsageError
from tracelens.flops.parts import (
    FEEDS,
    IDLE_EXPERTS,
    MIXERS,
    TABLES,
    UNMULTIPLIED,
    Part,
    parts_of,
)

_FLAGS = {
    "glu",
    "tied_embeddings",
    "biases",
    "qkv_biases",
    "qk_norm",
    "query_gate",
    "frozen",
    "sandwich_norms",
}
_TEXTS = {"activation"}
_KINDS = {"mixers": MIXERS, "feeds": FEEDS}
_LETTERS = {
    "M": ("mamba2", "none"),
    "*": ("attention", "none"),
    "-": ("none", "dense"),
    "E": ("none", "moe"),
    "G": ("delta", "none"),
}
_LIMIT = 1 << 40
"""No dimension of a model is larger; a larger number is a typing error."""
_MOST_LAYERS = 10_000


@dataclass(frozen=True, kw_only=True)
class ModelShape:
    """The numbers of a decoder-only model that its FLOPs depend on.

    Attributes:
        ffn: inner width of the dense feed-forward layers.
        glu: whether the feed-forward layers are gated (three matrices instead of two).
        experts: routed experts of a mixture-of-experts layer; 0 for a dense model.
        ffn_expert: inner width of one routed expert.
        ffn_shared: inner width of all shared experts together.
        dense_layers: leading layers without experts.
        sliding_window: attention window; 0 is none; a tuple gives one value a layer.
        q_lora_rank: rank of the latent query; 0 projects queries directly.
        kv_lora_rank: rank of the latent keys and values; above 0 the attention is latent.
        v_head_dim: width of a value head; 0 means that of a query head.
        mtp_layers: multi-token-prediction layers, outside the parameter totals.
        positions: learned position embeddings.
        biases: whether every matrix and every norm has a bias (GPT-2, GPT-3).
        qkv_biases: whether only the query, key and value projections have one (Qwen2).
        qk_norm: whether query and key heads are normalised (Qwen3).
        sandwich_norms: whether every sublayer is normalised on both sides (Gemma 2).
        query_gate: whether the query projection also makes a gate of its own size (Qwen3-Next).
        activation: of the feed-forward layers, where a convention asks for it.
        frozen: whether the weights get no gradients (LoRA), so that backward is half as much.
        mixers: what mixes tokens, one a layer: attention, mamba2, mamba, delta (gated delta rule)
            or none; empty means attention everywhere.
        feeds: what follows, one a layer: dense, moe or none; empty means what
            ``dense_layers`` says.
        ffn_latent: width that experts work in, where it is not ``hidden``.
        ssm_inner: inner width of a state-space layer; ``ssm_heads``, ``ssm_groups`` and
            ``ssm_state`` are its heads, groups and state size, ``ssm_rank`` that of Mamba's steps.
        delta_key_heads: key heads of the gated delta rule, like the other ``delta_`` fields.
    """

    layers: int
    hidden: int
    heads: int
    ffn: int
    vocab: int
    kv_heads: int = 0
    head_dim: int = 0
    glu: bool = True
    experts: int = 0
    experts_per_token: int = 0
    ffn_expert: int = 0
    ffn_shared: int = 0
    dense_layers: int = 0
    sliding_window: int | tuple[int, ...] = 0
    q_lora_rank: int = 0
    kv_lora_rank: int = 0
    qk_nope_head_dim: int = 0
    qk_rope_head_dim: int = 0
    v_head_dim: int = 0
    mtp_layers: int = 0
    tied_embeddings: bool = False
    positions: int = 0
    biases: bool = False
    qkv_biases: bool = False
    qk_norm: bool = False
    sandwich_norms: bool = False
    query_gate: bool = False
    activation: str = ""
    frozen: bool = False
    mixers: tuple[str, ...] = ()
    feeds: tuple[str, ...] = ()
    ffn_latent: int = 0
    ssm_inner: int = 0
    ssm_heads: int = 0
    ssm_groups: int = 0
    ssm_state: int = 0
    ssm_conv: int = 4
    ssm_rank: int = 0
    delta_key_heads: int = 0
    delta_value_heads: int = 0
    delta_key_dim: int = 0
    delta_value_dim: int = 0
    delta_conv: int = 4

    def __post_init__(self) -> None:
        for name in ("layers", "hidden", "vocab"):
            if getattr(self, name) < 1:
                raise UsageError(f"model: {name} must be at least 1")
        for field in fields(self):
            _check_field(field.name, getattr(self, field.name))
        for name in ("sliding_window", *_KINDS):
            value = getattr(self, name)
            if isinstance(value, tuple) and value and len(value) != self.layers:
                raise UsageError(f"model: {name} needs one value for each layer")
        if self.dense_layers > self.layers:
            raise UsageError("model: more dense_layers than layers")
        self._check_attention()
        self._check_experts()
        if not self.ssm_inner and {"mamba", "mamba2"} & set(self.mixers):
            raise UsageError("model: state-space layers need ssm_inner and ssm_state")
        if not self.delta_value_heads and "delta" in self.mixers:
            raise UsageError("model: layers of the delta rule need the delta_ fields")

    def _check_attention(self) -> None:
        if self.mixers and "attention" not in self.mixers:
            return
        if self.heads < 1:
            raise UsageError("model: heads must be at least 1")
        if self.kv_lora_rank and not self.qk_nope_head_dim:
            raise UsageError("model: kv_lora_rank needs qk_nope_head_dim and qk_rope_head_dim")
        if not self.head_dim and not self.kv_lora_rank and self.hidden % self.heads:
            raise UsageError("model: hidden is no multiple of heads; give head_dim")

    def _check_experts(self) -> None:
        if self.experts and not (0 < self.experts_per_token <= self.experts and self.ffn_expert):
            raise UsageError("model: experts need experts_per_token and ffn_expert")
        if not self.experts and (self.experts_per_token or "moe" in self.feeds):
            raise UsageError("model: experts_per_token or moe layers without experts")

    @classmethod
    def from_mapping(cls, values: Mapping[str, Any]) -> Self:
        """Build a shape from the field names of this class.

        Raises:
            UsageError: naming the field that is missing, unknown or not a number.
        """
        known = {field.name: field for field in fields(cls)}
        if "pattern" in values:
            rest = {name: value for name, value in values.items() if name != "pattern"}
            values = {**rest, **layers_of_pattern(values["pattern"])}
        unknown = sorted(set(values) - set(known))
        if unknown:
            raise UsageError(
                f"model: unknown field {unknown[0]!r}", hint=f"known fields: {', '.join(known)}"
            )
        for name in _KINDS:
            if isinstance(values.get(name), str):  # the same in every layer
                values = {**values, name: (values[name],) * min(_layer_count(values), _MOST_LAYERS)}
        required = [name for name, field in known.items() if field.default is MISSING]
        missing = [name for name in required if name not in values]
        if missing:
            raise UsageError(f"model: field {missing[0]!r} is missing")
        return cls(**{name: _field_value(name, values[name]) for name in values})

    # --- widths --------------------------------------------------------------------------------

    @property
    def key_heads(self) -> int:
        """Heads of keys and values."""
        return self.kv_heads or self.heads

    @property
    def qk_dim(self) -> int:
        """Width of a query (and key) head in the attention product."""
        if self.kv_lora_rank:
            return self.qk_nope_head_dim + self.qk_rope_head_dim
        return self.head_dim or self.hidden // self.heads

    @property
    def v_dim(self) -> int:
        """Width of a value head."""
        return self.v_head_dim or (self.qk_nope_head_dim if self.kv_lora_rank else self.qk_dim)

    @property
    def moe_layers(self) -> int:
        """Layers with experts."""
        return sum(self.feed_of(layer) == "moe" for layer in range(self.layers))

    def window_of(self, layer: int) -> int:
        """Attention window of a layer, 0 for none."""
        windows = self.sliding_window
        return windows[layer] if isinstance(windows, tuple) else windows

    def mixer_of(self, layer: int) -> str:
        """What mixes the tokens of a layer: attention, mamba2, mamba, delta or none."""
        return self.mixers[layer] if self.mixers else "attention"

    def feed_of(self, layer: int) -> str:
        """What follows it: dense, moe or none."""
        if self.feeds:
            return self.feeds[layer]
        return "moe" if self.experts and layer >= self.dense_layers else "dense"

    @property
    def matrices(self) -> int:
        """Matrices of a feed-forward layer."""
        return 3 if self.glu else 2

    # --- parameters ----------------------------------------------------------------------------

    @cached_property
    def parts(self) -> tuple[Part, ...]:
        """Every part of the model, in the order of the forward pass."""
        return parts_of(self)

    @property
    def head_weights(self) -> int:
        """Weights of the language-model head."""
        return self.vocab * self.hidden

    def _sum(self, *without: str) -> int:
        parts = (part for part in self.parts if not part.is_mtp and part.name not in without)
        return sum(part.weights for part in parts)

    @cached_property
    def params_mm(self) -> int:
        """Active parameters that take part in a matrix product: routers and head included."""
        return self._sum(*UNMULTIPLIED)

    @cached_property
    def params_nonemb_active(self) -> int:
        """Active parameters without embeddings and without the head."""
        return self._sum(*TABLES, "head", IDLE_EXPERTS)

    @cached_property
    def params_active(self) -> int:
        """Parameters that one token meets, embeddings counted as a whole."""
        return self._sum(IDLE_EXPERTS)

    @cached_property
    def params_total(self) -> int:
        """All parameters, without multi-token-prediction layers."""
        return self._sum()


def layers_of_pattern(pattern: Any) -> dict[str, tuple[str, ...]]:
    """Return mixers and feeds of a hybrid model whose layers are one letter each.

    The letters are Megatron's: ``M`` state space, ``*`` attention, ``-`` dense, ``E`` experts,
    ``G`` gated delta rule. ``|`` ends a pipeline stage, and what follows ``/`` predicts further
    tokens: both are left out.

    Raises:
        UsageError: if a letter is not known.
    """
    letters = str(pattern).partition("/")[0].replace("|", "").strip()
    for letter in letters:
        if letter not in _LETTERS:
            raise UsageError(
                f"model: layer {letter!r} in pattern {pattern!r} is not known",
                hint=f"known: {' '.join(_LETTERS)}",
            )
    kinds = [_LETTERS[letter] for letter in letters]
    return {"mixers": tuple(mixer for mixer, _ in kinds), "feeds": tuple(feed for _, feed in kinds)}


def _layer_count(values: Mapping[str, Any]) -> int:
    layers = values.get("layers")
    return layers if isinstance(layers, int) else 0


def _check_field(name: str, value: Any) -> None:
    if name in _KINDS:
        unknown = sorted(set(value) - set(_KINDS[name]))
        if unknown:
            raise UsageError(
                f"model: {name}: {unknown[0]!r} is not known",
                hint=f"known: {', '.join(_KINDS[name])}",
            )
    elif name not in _TEXTS:
        limit = _MOST_LAYERS if name in {"layers", "mtp_layers"} else _LIMIT
        for number in value if isinstance(value, tuple) else (value,):
            if not 0 <= number <= limit:
                raise UsageError(f"model: {name} is out of range: {number}")


def _field_value(name: str, value: Any) -> Any:
    if name in _TEXTS:
        return str(value or "")
    if name in _KINDS:
        return tuple(map(str, value)) if isinstance(value, list | tuple) else ()
    if value is None:
        return 0
    if isinstance(value, list | tuple) and name == "sliding_window":
        return tuple(_whole(name, item or 0) for item in value)
    if name in _FLAGS:
        return bool(value)
    return _whole(name, value)


def _whole(name: str, value: Any) -> int:
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if not number or not isfinite(value) or value != int(value):
        raise UsageError(f"model: {name} must be a whole number, not {value!r}")
    return int(value)
