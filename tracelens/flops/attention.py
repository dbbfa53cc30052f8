"""How many FLOPs does a fused attention call do: what the mask needs, and what the kernel does?

Per pair of query and key that the mask keeps, forward costs two products (scores, values) of
2 FLOP a component. Backward needs four, and flash attention repeats the scores: five. Argument
positions follow the ATen schemas and ``flash_attn`` 2 and 3. The lengths of packed sequences are
not recorded: their calls have bounds instead of a figure.
"""

from dataclasses import dataclass, replace

from tracelens.flops.packed import Packing, bounds
from tracelens.flops.recorded import Arguments, Shape


@dataclass(frozen=True)
class AttentionCall:
    """FLOPs of one fused attention call.

    Attributes:
        model_flop: what the mask needs; at most, where sequences are packed.
        executed_flop: what the kernel does; at most, where sequences are packed.
        backward: whether it is the backward call.
        query: position of the query, whose type is that of the products.
        low_frac: least over most, where sequences are packed; 1 where the figure is known.
    """

    model_flop: int
    executed_flop: int
    backward: bool
    query: int
    low_frac: float = 1.0


@dataclass(frozen=True)
class _Signature:
    """Where the arguments of one operator are.

    Attributes:
        query: position of the query; key and value follow.
        causal: position of ``is_causal``; negative: of ``custom_mask_type``, negated.
        heads_first: [B, H, S, D] instead of [B, S, H, D].
        offsets: positions of tensors that must not be passed.
        packed: position of the offsets of packed queries, those of keys following; 0 for none.
        longest: position of the greatest length of a query, that of keys following.
        window: position of the left window, the right one following; 0 for none.
        bottom_right: whether the causal mask ends at the last key instead of starting at the first.
        backward: whether this is the backward operator.
        length: number of arguments, where versions differ.
    """

    query: int
    causal: int
    heads_first: bool = True
    offsets: tuple[int, ...] = ()
    packed: int = 0
    longest: int = 0
    window: int = 0
    bottom_right: bool = False
    backward: bool = False
    length: int = 0


_FLASH = _Signature(0, 5, heads_first=False, bottom_right=True, window=6)
_FLASH_BACKWARD = replace(_FLASH, query=1, causal=11, window=12, backward=True)
_FLASH_3 = replace(_FLASH, causal=24, window=25, offsets=(3, 10, 11), packed=7, longest=12)

_SIGNATURES: dict[str, tuple[_Signature, ...]] = {
    "aten::scaled_dot_product_attention": (_Signature(0, 5),),
    "aten::_scaled_dot_product_flash_attention": (_Signature(0, 4),),
    "aten::_scaled_dot_product_efficient_attention": (_Signature(0, 6),),
    "aten::_scaled_dot_product_cudnn_attention": (_Signature(0, 6),),
    "aten::_scaled_dot_product_flash_attention_backward": (
        _Signature(1, 11, offsets=(6, 7), backward=True),
    ),
    "aten::_scaled_dot_product_efficient_attention_backward": (_Signature(1, 11, backward=True),),
    "aten::_scaled_dot_product_cudnn_attention_backward": (
        _Signature(1, 14, offsets=(9, 10), backward=True),
    ),
    "aten::_flash_attention_forward": (_Signature(0, 8, heads_first=False, packed=3, longest=5),),
    "aten::_flash_attention_backward": (
        _Signature(1, 11, heads_first=False, packed=6, longest=8, backward=True),
    ),
    "aten::_efficient_attention_forward": (
        _Signature(0, -8, heads_first=False, packed=4, longest=6, length=13),
        _Signature(0, -9, heads_first=False, packed=4, longest=6, length=14),
    ),
    "aten::_efficient_attention_backward": (
        _Signature(1, -14, heads_first=False, packed=6, longest=8, backward=True),
    ),
    "flash_attn::_flash_attn_forward": (_FLASH,),
    "flash_attn::_flash_attn_backward": (_FLASH_BACKWARD,),
    "flash_attn::_flash_attn_varlen_forward": (
        replace(_FLASH, causal=9, window=10, packed=3, longest=5),
    ),
    "flash_attn::_flash_attn_varlen_backward": (
        replace(_FLASH_BACKWARD, causal=15, window=16, packed=9, longest=11),
    ),
    "flash_attn_3::_flash_attn_forward": (_FLASH_3,),
    "flash_attn_3::fwd": (_FLASH_3,),
    "flash_attn_3::_flash_attn_backward": (
        replace(_FLASH_BACKWARD, causal=13, window=14, offsets=(8, 9), packed=6, longest=10),
    ),
    "flash_attn_3::bwd": (
        replace(_FLASH_BACKWARD, causal=16, window=17, offsets=(11, 12), packed=9, longest=13),
    ),
}

ATTENTION_OPS = frozenset(_SIGNATURES)
"""Operators that are attention as a whole."""


def attention_call(name: str, arguments: Arguments) -> AttentionCall | None:
    """Return the FLOPs of an attention operator, ``None`` when its record does not give them."""
    for signature in _SIGNATURES[name]:
        if signature.length in {0, len(arguments)}:
            return _call(signature, arguments)
    return None


def _call(signature: _Signature, arguments: Arguments) -> AttentionCall | None:
    if any(not arguments.is_absent(offset) for offset in signature.offsets):
        return None
    if signature.packed and not arguments.is_absent(signature.packed):
        return _packed_call(signature, arguments)
    shapes = [arguments.shape(signature.query + index, 4) for index in range(3)]
    query, key, value = shapes
    if query is None or key is None or value is None:
        return None
    if signature.heads_first:
        query, key, value = (_sequence_first(shape) for shape in (query, key, value))
    pairs = _kept_pairs(signature, arguments, query[1], key[1])
    if pairs is None or not _agree(query, key, value):
        return None
    return _costs(signature, query, value, pairs)


def _packed_call(signature: _Signature, arguments: Arguments) -> AttentionCall | None:
    """Sequences of one batch end to end; queries and keys are taken to have the same lengths."""
    shapes = [_one_batch(arguments, signature.query + index) for index in range(3)]
    query, key, value = shapes
    offsets = [arguments.shape(signature.packed + index, 1) for index in (0, 1)]
    longest = [arguments.number(signature.longest + index) for index in (0, 1)]
    if query is None or key is None or value is None or not _agree(query, key, value):
        return None
    if offsets[0] is None or offsets[0] != offsets[1] or not longest[0] or query[1] != key[1]:
        return None
    if longest[0] != longest[1] or _kept_pairs(signature, arguments, 1, 1) is None:
        return None
    packing = Packing(query[1], offsets[0][0] - 1, longest[0])
    if offsets[0][0] < 2 or not packing.is_possible:
        return None
    least, most = bounds(
        packing, lambda length: _kept_pairs(signature, arguments, length, length) or 0
    )
    if not 0 < least <= most:
        return None
    return replace(_costs(signature, query, value, most), low_frac=least / most)


def _one_batch(arguments: Arguments, index: int) -> Shape | None:
    """[tokens, H, D], or [1, tokens, H, D]."""
    shape = arguments.shape(index)
    if shape is None or len(shape) not in {3, 4} or (len(shape) == 4 and shape[0] != 1):
        return None
    return (1, *shape[-3:])


def _costs(signature: _Signature, query: Shape, value: Shape, pairs: int) -> AttentionCall:
    scores = 2 * query[0] * query[2] * pairs * query[3]
    values = 2 * query[0] * query[2] * pairs * value[3]
    if not signature.backward:
        return AttentionCall(scores + values, scores + values, False, signature.query)
    needed = 2 * (scores + values)
    return AttentionCall(needed, needed + scores, True, signature.query)


def _sequence_first(shape: Shape) -> Shape:
    return (shape[0], shape[2], shape[1], shape[3])


def _agree(query: Shape, key: Shape, value: Shape) -> bool:
    same_batch = query[0] == key[0] == value[0]
    same_heads = key[2] == value[2] and key[2] > 0 and query[2] % key[2] == 0
    return same_batch and same_heads and key[1] == value[1] and key[3] == query[3]


def _kept_pairs(signature: _Signature, arguments: Arguments, queries: int, keys: int) -> int | None:
    """Pairs of query and key that the mask keeps, for one head."""
    causal = _is_causal(signature, arguments)
    if causal is None:
        return None
    mask, bottom_right = causal
    window = _window(signature, arguments)
    if window is None:
        return None
    left, right = window
    if mask:
        right = 0
    shift = keys - queries if bottom_right else 0
    low = shift - left if left >= 0 else -queries
    high = shift + right if right >= 0 else keys
    return _clipped_sum(queries, keys, high + 1) - _clipped_sum(queries, keys, low)


def _window(signature: _Signature, arguments: Arguments) -> tuple[int, int] | None:
    """Keys to the left and right that a query sees; negative: all."""
    if not signature.window:
        return (-1, -1)
    left, right = (arguments.number(signature.window + side) for side in (0, 1))
    return None if left is None or right is None else (left, right)


def _is_causal(signature: _Signature, arguments: Arguments) -> tuple[bool, bool] | None:
    """Whether the mask is causal, and whether it is aligned to the last key."""
    if signature.causal >= 0:
        flag = arguments.flag(signature.causal)
        return None if flag is None else (flag, signature.bottom_right)
    kind = arguments.number(-signature.causal)  # 0 none, 1 from the top left, 2 bottom right
    return (kind > 0, kind == 2) if kind in {0, 1, 2} and kind is not None else None


def _clipped_sum(queries: int, keys: int, offset: int) -> int:
    """Sum over i in [0, queries) of i + offset, clipped to [0, keys], in closed form."""
    first = min(max(-offset, 0), queries)  # below it the value is 0
    last = min(max(keys - offset, first), queries)  # from it on the value is `keys`
    ramp = (last - first) * offset + (first + last - 1) * (last - first) // 2
    return ramp + (queries - last) * keys
