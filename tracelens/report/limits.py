"""What can this trace not say, and what would have to be recorded or given for it?"""

from typing import Any, NamedTuple

from tracelens.report.sections.skeletons import NO_FLOPS

_LEAST_SHARE = 0.01


class Limit(NamedTuple):
    """One thing that cannot be measured here.

    Attributes:
        what: the quantity, and why it is out of reach.
        record: what to record next time; empty where recording does not help.
        give: which option to give; empty where there is none.
    """

    what: str
    record: str = ""
    give: str = ""

    @property
    def remedies(self) -> list[str]:
        """What to do, the option first: it needs no new recording."""
        pairs = (("give", self.give), ("record", self.record))
        return [f"{verb}: {text}" for verb, text in pairs if text]


def limits(document: dict[str, Any]) -> list[Limit]:
    """Return what the answer leaves open, most important first."""
    return [*_of_mfu(document), *_of_communication(document), *_of_time(document)]


def _of_mfu(document: dict[str, Any]) -> list[Limit]:
    """Return limits of the FLOPs account; its own reasons stand beside the MFU already."""
    mfu = document["mfu"]
    if mfu["value"] is None and mfu["reason"] in {None, NO_FLOPS}:
        return [
            Limit(
                "MFU and the peak",
                "record_shapes=True",
                "--gpu NAME, --model NAME, --seq-len N, --tokens-per-step N",
            )
        ]
    if document["flops"]["executed_flop"] is None and mfu["value"] is not None:
        return [Limit("HFU and FLOPs a kernel: no shapes", "record_shapes=True")]
    return []


def _of_communication(document: dict[str, Any]) -> list[Limit]:
    run, leaves = document["run"], document["time"]["leaves"]
    found = []
    if any(leaf.endswith(".undivided") for leaf in leaves):
        found.append(
            Limit("who is late: one rank only", "traces of all ranks")
            if len(run["ranks"]) == 1
            else Limit("waiting apart from transfer in collectives: not told apart in this version")
        )
    if any(leaf.startswith("comm.unknown.") for leaf in leaves):
        found.append(
            Limit(
                "parallel dimension of some collectives",
                "named process groups (DeviceMesh, Megatron)",
            )
        )
    return found


def _of_time(document: dict[str, Any]) -> list[Limit]:
    found = []
    if _share(document, "opaque.graph") >= _LEAST_SHARE:
        found.append(Limit("inside CUDA graphs recorded as one row", "--cuda-graph-trace=node"))
    if _share(document, "idle.unrecorded") > 0:
        found.append(Limit("GPU work that was launched, not recorded", "larger profiler buffers"))
    if _share(document, "host.unlabelled") >= _LEAST_SHARE:
        found.append(Limit("what the host did in some gaps", _of_host(document)))
    if document["quality"]["unlaunched_idle_ns"] > 0:
        found.append(
            Limit("cause of some gaps: launches missing", "CUDA API calls, from the start")
        )
    return found


def _of_host(document: dict[str, Any]) -> str:
    """What to record of the host: what is missing, else more of what is there."""
    recorded = document["quality"]["host_recorded"]
    from_nsys = any(item["format"].startswith("nsys") for item in document["inputs"])
    missing = [] if recorded["ranges"] else ["NVTX or record_function ranges"]
    if from_nsys and not recorded["os_calls"]:
        missing.append("--trace=osrt")
    return ", ".join(missing) or "finer ranges around loading, logging and Python code"


def _share(document: dict[str, Any], leaf: str) -> float:
    total_ns = document["window"]["total_ns"]
    return document["time"]["leaves"].get(leaf, 0) / total_ns if total_ns else 0.0
