"""How many FLOPs does a token cost, and under whose way of counting?

Every number is forward plus backward; a multiply-add is two FLOP. A convention is a tuple of
choices: which parameters count, how much of the attention square counts, and what else. The
formulas follow the sources named with each convention.
"""

from collections.abc import Callable
from dataclasses import dataclass

from tracelens.errors import UsageError
from tracelens.flops.models import ModelShape
from tracelens.flops.presets import ModelLike, load_model

_MAX_SEQ_LEN = 1 << 40


@dataclass(frozen=True, kw_only=True)
class Convention:
    """One way of counting.

    Attributes:
        name: the name that options and reports use.
        weights: parameters that are multiplied, given the model.
        attention: ``none``, ``half`` or ``full`` square, ``exact`` causal mask, or ``hidden``, the
            square with the width of the model in place of that of the heads.
        windowed: whether sliding windows shorten the context.
        attention_factor: executed over credited attention: 7/6 for flash, 4/3 for full recompute.
        layer_factor: the same for the matrices of the layers; the head is not recomputed.
        factor: the same for everything.
        vocab_multiple: the vocabulary is padded to a multiple of this.
        mtp: whether multi-token-prediction layers count.
        latent_norms: whether Megatron's per-norm terms of latent attention and MTP count.
        mask: whether Levanter's three operations a score count.
        source: where the formula comes from.
    """

    name: str
    weights: Callable[[ModelShape], int]
    attention: str = "full"
    windowed: bool = False
    attention_factor: float = 1.0
    layer_factor: float = 1.0
    factor: float = 1.0
    vocab_multiple: int = 1
    mtp: bool = False
    latent_norms: bool = False
    mask: bool = False
    source: str = ""


def _no_router(model: ModelShape) -> int:
    return model.layer_weights + model.head_weights


def _with_router(model: ModelShape) -> int:
    return model.params_mm


def _without_positions(model: ModelShape) -> int:
    return model.params_active - model.position_weights


def _huggingface(model: ModelShape) -> int:
    return model.params_total - model.head_weights - model.position_weights


def _torchtitan(model: ModelShape) -> int:
    if model.tied_embeddings:
        return model.params_active
    return _without_positions(model) - model.head_weights


def _olmo(model: ModelShape) -> int:
    return model.params_mm + model.hidden


_MEGATRON = "Megatron-LM num_floating_point_operations"
_KORTHIKANTI = "Korthikanti et al. 2022 (arXiv 2205.05198), appendix A"

CONVENTIONS: dict[str, Convention] = {
    convention.name: convention
    for convention in (
        Convention(
            name="causal",
            weights=_with_router,
            attention="exact",
            windowed=True,
            source="exact causal mask T(T+1)/2, windows exact",
        ),
        Convention(
            name="full",
            weights=_with_router,
            windowed=True,
            source="full attention square",
        ),
        Convention(
            name="megatron",
            weights=_no_router,
            attention="half",
            windowed=True,
            vocab_multiple=128,
            mtp=True,
            latent_norms=True,
            source=f"{_MEGATRON} since 2025-03",
        ),
        Convention(
            name="megatron-2024",
            weights=_no_router,
            vocab_multiple=128,
            source=f"{_MEGATRON} before 2025-03",
        ),
        Convention(
            name="nemo",
            weights=_no_router,
            attention="half",
            windowed=True,
            mtp=True,
            source="NeMo flops_formulas since 2025-08",
        ),
        Convention(
            name="maxtext",
            weights=_with_router,
            attention="half",
            windowed=True,
            mtp=True,
            source="MaxText since 2025-07",
        ),
        Convention(
            name="palm",
            weights=lambda model: model.params_active,
            source="Chowdhery et al. 2022 (arXiv 2204.02311), appendix B",
        ),
        Convention(
            name="kaplan",
            weights=lambda model: model.params_nonemb_active,
            attention="none",
            source="Kaplan et al. 2020 (arXiv 2001.08361): 6N",
        ),
        Convention(
            name="6n",
            weights=lambda model: model.params_total,
            attention="none",
            source="6 x all parameters",
        ),
        Convention(
            name="hf-trainer",
            weights=_huggingface,
            attention="none",
            source="Hugging Face Trainer floating_point_ops",
        ),
        Convention(name="nanogpt", weights=_without_positions, source="nanoGPT estimate_mfu"),
        Convention(
            name="nanochat",
            weights=_with_router,
            windowed=True,
            source="nanochat: parameters of linear layers",
        ),
        Convention(
            name="picotron",
            weights=lambda model: model.params_total,
            attention="hidden",
            source="picotron get_mfu",
        ),
        Convention(
            name="llm-foundry",
            weights=lambda model: model.params_active,
            attention="hidden",
            source="llm-foundry benchmarking README, MFU",
        ),
        Convention(
            name="llm-foundry-hfu",
            weights=lambda model: model.params_active,
            attention="hidden",
            factor=4 / 3,
            source="llm-foundry benchmarking README, HFU",
        ),
        Convention(
            name="torchtitan", weights=_torchtitan, source="torchtitan get_nparams_and_flops"
        ),
        Convention(
            name="olmo-core", weights=_olmo, windowed=True, source="OLMo-core num_flops_per_token"
        ),
        Convention(name="nanotron", weights=_no_router, source="nanotron get_flops"),
        Convention(
            name="levanter", weights=_with_router, mask=True, source="levanter lm_flops_per_token"
        ),
        Convention(
            name="korthikanti", weights=_no_router, vocab_multiple=1024, source=_KORTHIKANTI
        ),
        Convention(
            name="korthikanti-hw",
            weights=_no_router,
            vocab_multiple=1024,
            attention_factor=2.0,
            source=f"{_KORTHIKANTI}, hardware FLOPs as its table 5 needs them",
        ),
        Convention(
            name="selective-hw",
            weights=_no_router,
            vocab_multiple=1024,
            attention_factor=4 / 3,
            source="selective recompute: the attention core runs forward once more",
        ),
        Convention(
            name="sc21",
            weights=_no_router,
            vocab_multiple=1024,
            attention_factor=4 / 3,
            layer_factor=4 / 3,
            source="Narayanan et al. 2021 (arXiv 2104.04473): full recompute",
        ),
        Convention(
            name="flopcounter-flash",
            weights=_with_router,
            attention_factor=7 / 6,
            source="torch.utils.flop_counter with flash attention",
        ),
    )
}
"""All conventions by name."""

DEFAULT_CONVENTION = "causal"
_ALIASES = {"exact": "causal", "exactcausal": "causal", "half": "megatron", "titan": "torchtitan"}


def find_convention(name: str) -> Convention:
    """Return a convention; names compare as lower-case letters and digits.

    Raises:
        UsageError: if there is no such convention.
    """
    wanted = _plain(name)
    wanted = _plain(_ALIASES.get(wanted, wanted))
    for convention in CONVENTIONS.values():
        if _plain(convention.name) == wanted:
            return convention
    raise UsageError(f"unknown convention {name!r}", hint=f"known: {', '.join(CONVENTIONS)}")


def flops_per_token(
    model: ModelLike, *, seq_len: int, convention: str = DEFAULT_CONVENTION
) -> float:
    """Return the FLOPs of training on one token, forward and backward.

    Args:
        model: a preset name, the path of a configuration, a mapping or a shape.
        seq_len: tokens a sequence.
        convention: the way of counting; ``causal`` counts the exact mask.

    Raises:
        UsageError: if the model, the convention or the length makes no sense.
    """
    counted = find_convention(convention)
    if not 1 <= seq_len <= _MAX_SEQ_LEN:
        raise UsageError(f"sequence length out of range: {seq_len}")
    shape = load_model(model)
    head = shape.head_weights
    padded = _round_up(shape.vocab, counted.vocab_multiple) * shape.hidden
    body = counted.weights(shape) - head
    flop = 6 * (body * counted.layer_factor + padded)
    flop += counted.attention_factor * _attention_flop(shape, seq_len, counted)
    if counted.mtp and shape.mtp_layers:
        flop += shape.mtp_layers * _mtp_flop(shape, seq_len, counted, padded)
    if counted.latent_norms:
        flop += 6 * _latent_norm_weights(shape)
    if counted.mask:
        flop += 9 * seq_len * shape.heads * shape.layers
    return flop * counted.factor


def flops_per_token_by_convention(model: ModelLike, *, seq_len: int) -> dict[str, float]:
    """Return the FLOPs of one token under every convention."""
    shape = load_model(model)
    return {name: flops_per_token(shape, seq_len=seq_len, convention=name) for name in CONVENTIONS}


def _attention_flop(model: ModelShape, seq_len: int, counted: Convention) -> float:
    """Both products of the attention core in all layers: 2 FLOP x 3 passes x width x context."""
    if counted.attention == "none":
        return 0.0
    width = model.heads * (model.qk_dim + model.v_dim)
    if counted.attention == "hidden":
        width = 2 * model.hidden
    windows = [model.window_of(layer) if counted.windowed else 0 for layer in range(model.layers)]
    return sum(6 * width * _context(counted.attention, seq_len, window) for window in windows)


def _context(attention: str, seq_len: int, window: int) -> float:
    """Keys that a query meets on average."""
    clipped = min(window, seq_len) if window else seq_len
    if attention in {"full", "hidden"}:
        return clipped
    if attention == "exact" or clipped < seq_len:
        # The first `clipped` queries meet 1, 2, ... keys, every later one meets `clipped`.
        return clipped - clipped * (clipped - 1) / (2 * seq_len)
    return seq_len / 2


def _mtp_flop(model: ModelShape, seq_len: int, counted: Convention, head: int) -> float:
    """One more layer of the last kind, its 2h x h input projection, and one more head."""
    last = model.moe_layer_active_weights if model.experts else 0
    if not model.experts:
        last = (3 if model.glu else 2) * model.hidden * model.ffn
    elif counted.weights is _with_router:
        last += model.router_weights
    weights = model.attention_weights + last + 2 * model.hidden**2 + head
    width = model.heads * (model.qk_dim + model.v_dim)
    window = model.window_of(model.layers - 1) if counted.windowed else 0
    return 6 * weights + 6 * width * _context(counted.attention, seq_len, window)


def _latent_norm_weights(model: ModelShape) -> int:
    layers = model.layers + model.mtp_layers
    latent = (model.q_lora_rank + model.kv_lora_rank) * layers if model.kv_lora_rank else 0
    return latent + 3 * model.hidden * model.mtp_layers


def _round_up(value: int, multiple: int) -> int:
    return -(-value // multiple) * multiple


def _plain(name: str) -> str:
    return "".join(character for character in name.lower() if character.isalnum())
