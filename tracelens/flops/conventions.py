"""Under which ways of counting are model FLOPs quoted?

A convention is a tuple of choices: which parameters count, how much of the attention square
counts, and what else. The choices follow the sources named with each convention.
"""

from dataclasses import dataclass, fields

from tracelens.errors import UsageError


@dataclass(frozen=True, kw_only=True)
class Convention:
    """One way of counting.

    Attributes:
        name: the name that options and reports use.
        attention: ``none``, ``half`` or ``full`` square, or ``exact`` causal mask.
        width: width of the attention product: that of the ``heads``, or ``hidden``, the width of
            the model in its place.
        windowed: whether sliding windows shorten the context.
        documents: whether packed documents are told apart.
        embedding: whether the embedding table counts as a matrix (a tied one counts once, as head).
        positions: whether learned positions count: ``no``, ``yes``, or only when ``tied``.
        head: whether the head counts: ``no``, ``yes``, or only when ``untied``.
        vocab_multiple: the vocabulary is padded to a multiple of this.
        experts: ``active`` ones or ``all``.
        router: whether routers count.
        norms: which parameters of norms and biases count: ``no``, ``all`` or the ``final`` norm.
        mtp: whether multi-token-prediction layers count.
        recompute: what runs once more: ``none``; ``flash``, one of the two products of the
            attention core; ``core``, the core; ``core-x3``, as Korthikanti et al. print it;
            ``layers``, everything but the head; ``all``.
        latent_norms: whether Megatron's per-norm terms of latent attention and MTP count.
        mask: whether Levanter's three operations a score count.
        gated_if_silu: whether gated layers with another activation are taken for plain ones.
        ssm_twice_hidden: whether the inner width of state-space layers is taken as 2 x hidden.
        source: where the formula comes from.
    """

    name: str
    attention: str = "full"
    width: str = "heads"
    windowed: bool = False
    documents: bool = False
    embedding: bool = False
    positions: str = "no"
    head: str = "yes"
    vocab_multiple: int = 1
    experts: str = "active"
    router: bool = True
    norms: str = "no"
    mtp: bool = False
    recompute: str = "none"
    latent_norms: bool = False
    mask: bool = False
    gated_if_silu: bool = False
    ssm_twice_hidden: bool = False
    source: str = ""

    def choices(self) -> str:
        """Return the tuple of choices in words: those that every convention makes, then others."""
        always = (
            f"attention {self.attention}{'' if self.width == 'heads' else ' of model width'}",
            f"embedding {_YES[self.embedding]}",
            f"head {self.head}",
            f"experts {self.experts}",
            f"router {_YES[self.router]}",
            f"MTP {_YES[self.mtp]}",
            f"recompute {self.recompute}",
        )
        plain = Convention(name=self.name)
        rare = (
            f"{field.name.replace('_', ' ')} {getattr(self, field.name)}"
            for field in fields(self)
            if field.name in _RARE and getattr(self, field.name) != getattr(plain, field.name)
        )
        return ", ".join((*always, *rare)).replace(" True", "")


_YES = {True: "yes", False: "no"}
_RARE = {
    "windowed", "documents", "positions", "vocab_multiple", "norms", "latent_norms", "mask",
    "gated_if_silu", "ssm_twice_hidden",
}  # fmt: skip
_MEGATRON = "Megatron-LM num_floating_point_operations"
_KORTHIKANTI = "Korthikanti et al. 2022 (arXiv 2205.05198), appendix A"

CONVENTIONS: dict[str, Convention] = {
    convention.name: convention
    for convention in (
        Convention(
            name="causal",
            attention="exact",
            windowed=True,
            documents=True,
            source="exact causal mask T(T+1)/2, windows exact",
        ),
        Convention(name="full", windowed=True, documents=True, source="full attention square"),
        Convention(
            name="megatron",
            attention="half",
            windowed=True,
            documents=True,
            router=False,
            vocab_multiple=128,
            mtp=True,
            latent_norms=True,
            ssm_twice_hidden=True,
            source=f"{_MEGATRON} since 2025-03",
        ),
        Convention(
            name="megatron-2024",
            router=False,
            vocab_multiple=128,
            source=f"{_MEGATRON} before 2025-03",
        ),
        Convention(
            name="bridge-2025",
            attention="half",
            router=False,
            vocab_multiple=128,
            mtp=True,
            latent_norms=True,
            gated_if_silu=True,
            source="Megatron-Bridge flop_utils before 2026-05-28: windows ignored",
        ),
        Convention(
            name="nemo",
            attention="half",
            windowed=True,
            router=False,
            mtp=True,
            source="NeMo flops_formulas since 2025-08",
        ),
        Convention(
            name="nemo-2024", router=False, source="NeMo flops_formulas before 2025-08: full square"
        ),
        Convention(
            name="maxtext",
            attention="half",
            windowed=True,
            mtp=True,
            source="MaxText since 2025-07",
        ),
        Convention(name="maxtext-2024", source="MaxText before 2025-07: full square"),
        Convention(
            name="palm",
            embedding=True,
            positions="yes",
            norms="all",
            source="Chowdhery et al. 2022 (arXiv 2204.02311), appendix B",
        ),
        Convention(
            name="kaplan",
            attention="none",
            head="no",
            norms="all",
            source="Kaplan et al. 2020 (arXiv 2001.08361): 6N",
        ),
        Convention(
            name="6n",
            attention="none",
            embedding=True,
            positions="yes",
            experts="all",
            norms="all",
            source="6 x all parameters",
        ),
        Convention(
            name="6n-matmul",
            attention="none",
            source="6 x parameters that multiply a token: packed documents of unknown lengths",
        ),
        Convention(
            name="hf-trainer",
            attention="none",
            head="untied",
            experts="all",
            norms="all",
            source="Hugging Face Trainer floating_point_ops",
        ),
        Convention(name="nanogpt", embedding=True, norms="all", source="nanoGPT estimate_mfu"),
        Convention(name="nanochat", windowed=True, source="nanochat: parameters of linear layers"),
        Convention(
            name="picotron",
            width="hidden",
            embedding=True,
            positions="yes",
            experts="all",
            norms="all",
            source="picotron get_mfu",
        ),
        Convention(
            name="llm-foundry",
            width="hidden",
            embedding=True,
            positions="yes",
            norms="all",
            source="llm-foundry benchmarking README, MFU",
        ),
        Convention(
            name="llm-foundry-hfu",
            width="hidden",
            embedding=True,
            positions="yes",
            norms="all",
            recompute="all",
            source="llm-foundry benchmarking README, HFU",
        ),
        Convention(
            name="torchtitan",
            positions="tied",
            norms="all",
            source="torchtitan get_nparams_and_flops",
        ),
        Convention(
            name="olmo-core",
            windowed=True,
            norms="final",
            source="OLMo-core num_flops_per_token",
        ),
        Convention(name="nanotron", router=False, source="nanotron get_flops"),
        Convention(name="levanter", mask=True, source="levanter lm_flops_per_token"),
        Convention(name="korthikanti", router=False, vocab_multiple=1024, source=_KORTHIKANTI),
        Convention(
            name="korthikanti-hw",
            router=False,
            vocab_multiple=1024,
            recompute="core-x3",
            source=f"{_KORTHIKANTI}, hardware FLOPs as its table 5 needs them",
        ),
        Convention(
            name="selective-hw",
            router=False,
            vocab_multiple=1024,
            recompute="core",
            source="selective recompute: the attention core runs forward once more",
        ),
        Convention(
            name="sc21",
            router=False,
            vocab_multiple=1024,
            recompute="layers",
            source="Narayanan et al. 2021 (arXiv 2104.04473): full recompute",
        ),
        Convention(
            name="flopcounter-flash",
            recompute="flash",
            source="torch.utils.flop_counter with flash attention",
        ),
    )
}
"""All conventions by name."""

DEFAULT_CONVENTION = "causal"
_ALIASES = {
    "exact": "causal",
    "exactcausal": "causal",
    "half": "megatron",
    "titan": "torchtitan",
    "flopcounter": "flopcounter-flash",
    "korthikantimodel": "korthikanti",
    "megatronbridge": "megatron",
    "bridge": "megatron",
}


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


def _plain(name: str) -> str:
    return "".join(character for character in name.lower() if character.isalnum())
