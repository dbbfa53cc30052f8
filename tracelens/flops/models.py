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

_FLAGS = {"glu", "tied_embeddings", "biases", "qkv_biases", "qk_norm"}
_LIMIT = 1 << 40
"""No dimension of a model is larger; a larger number is a typing error."""


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

    def __post_init__(self) -> None:
        for name in ("layers", "hidden", "heads", "vocab"):
            if getattr(self, name) < 1:
                raise UsageError(f"model: {name} must be at least 1")
        for field in fields(self):
            _check_dimension(field.name, getattr(self, field.name))
        if self.experts and not (0 < self.experts_per_token <= self.experts and self.ffn_expert):
            raise UsageError("model: experts need experts_per_token and ffn_expert")
        if self.experts_per_token and not self.experts:
            raise UsageError("model: experts_per_token without experts")
        if self.kv_lora_rank and not self.qk_nope_head_dim:
            raise UsageError("model: kv_lora_rank needs qk_nope_head_dim and qk_rope_head_dim")
        if self.dense_layers > self.layers:
            raise UsageError("model: more dense_layers than layers")
        if not self.head_dim and not self.kv_lora_rank and self.hidden % self.heads:
            raise UsageError("model: hidden is no multiple of heads; give head_dim")
        if isinstance(self.sliding_window, tuple) and len(self.sliding_window) != self.layers:
            raise UsageError("model: sliding_window needs one value, or one for each layer")

    @classmethod
    def from_mapping(cls, values: Mapping[str, Any]) -> Self:
        """Build a shape from the field names of this class.

        Raises:
            UsageError: naming the field that is missing, unknown or not a number.
        """
        known = {field.name: field for field in fields(cls)}
        unknown = sorted(set(values) - set(known))
        if unknown:
            raise UsageError(
                f"model: unknown field {unknown[0]!r}", hint=f"known fields: {', '.join(known)}"
            )
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
        return self.layers - self.dense_layers if self.experts else 0

    def window_of(self, layer: int) -> int:
        """Attention window of a layer, 0 for none."""
        windows = self.sliding_window
        return windows[layer] if isinstance(windows, tuple) else windows

    # --- weights of matrices -------------------------------------------------------------------

    @cached_property
    def attention_weights(self) -> int:
        """Weights of the projections of one attention layer."""
        output = self.heads * self.v_dim * self.hidden
        if not self.kv_lora_rank:
            keys_values = self.hidden * self.key_heads * (self.qk_dim + self.v_dim)
            return self.hidden * self.heads * self.qk_dim + keys_values + output
        queries = self.heads * self.qk_dim
        query = (
            self.q_lora_rank * (self.hidden + queries)
            if self.q_lora_rank
            else self.hidden * queries
        )
        down = self.hidden * (self.kv_lora_rank + self.qk_rope_head_dim)
        up = self.kv_lora_rank * self.heads * (self.qk_nope_head_dim + self.v_dim)
        return query + down + up + output

    @property
    def _matrices(self) -> int:
        return 3 if self.glu else 2

    @cached_property
    def moe_layer_active_weights(self) -> int:
        """Feed-forward weights that one token meets in a layer with experts, router excluded."""
        width = self.experts_per_token * self.ffn_expert + self.ffn_shared
        return self._matrices * self.hidden * width

    @cached_property
    def router_weights(self) -> int:
        """Weights of one router."""
        return self.hidden * self.experts

    @cached_property
    def layer_weights(self) -> int:
        """Active weights of the matrices of all layers: no router, no head."""
        dense = self._matrices * self.hidden * self.ffn * (self.layers - self.moe_layers)
        experts = self.moe_layer_active_weights * self.moe_layers
        return self.layers * self.attention_weights + dense + experts

    @property
    def routers(self) -> int:
        """Weights of all routers."""
        return self.router_weights * self.moe_layers

    @property
    def head_weights(self) -> int:
        """Weights of the language-model head."""
        return self.vocab * self.hidden

    # --- parameter totals ----------------------------------------------------------------------

    @cached_property
    def _vectors(self) -> int:
        """Parameters of norms and biases."""
        norm = self.hidden * (2 if self.biases else 1)
        layer = 2 * norm
        if self.kv_lora_rank:
            layer += self.q_lora_rank + self.kv_lora_rank
        if self.qk_norm:
            layer += 2 * self.qk_dim
        if self.biases or self.qkv_biases:
            layer += self.heads * self.qk_dim + self.key_heads * (self.qk_dim + self.v_dim)
        if self.biases:
            gated = self.ffn * (2 if self.glu else 1)
            layer += self.hidden + gated + self.hidden
        return self.layers * layer + norm

    @cached_property
    def params_mm(self) -> int:
        """Active parameters that take part in a matrix product: routers and head included."""
        return self.layer_weights + self.routers + self.head_weights

    @cached_property
    def params_nonemb_active(self) -> int:
        """Active parameters without embeddings and without the head."""
        return self.layer_weights + self.routers + self._vectors

    @property
    def position_weights(self) -> int:
        """Parameters of learned positions."""
        return self.positions * self.hidden

    @cached_property
    def params_active(self) -> int:
        """Parameters that one token meets, embeddings counted as a whole."""
        tables = 1 if self.tied_embeddings else 2
        return self.params_nonemb_active + tables * self.head_weights + self.position_weights

    @cached_property
    def params_total(self) -> int:
        """All parameters, without multi-token-prediction layers."""
        idle_width = (self.experts - self.experts_per_token) * self.ffn_expert
        return self.params_active + self._matrices * self.hidden * idle_width * self.moe_layers


def _check_dimension(name: str, value: Any) -> None:
    for number in value if isinstance(value, tuple) else (value,):
        if not 0 <= number <= _LIMIT:
            raise UsageError(f"model: {name} is out of range: {number}")


def _field_value(name: str, value: Any) -> Any:
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
