"""How does a rank take part in collectives, sends and receives, on streams of their own?"""

from collections.abc import Generator
from typing import TYPE_CHECKING

from tracelens.simulate import actions as act
from tracelens.simulate.job import Exchanging, Script
from tracelens.simulate.model import BF16_BYTES, LayerExchange

if TYPE_CHECKING:
    from tracelens.simulate.parallel import ParallelJob

_STREAMS = {"dp": act.COMM_STREAM, "fsdp": act.COMM_STREAM, "tp": 27, "ep": 31, "world": 35}
# Two-way traffic on one stream would deadlock, so would a send behind a receive.
_PEER_STREAMS = {
    ("cp", "send"): 39,
    ("cp", "recv"): 43,
    ("forward", "send"): 47,
    ("forward", "recv"): 51,
    ("backward", "send"): 55,
    ("backward", "recv"): 59,
}


class ExchangingScript(Script):
    """The host programs of one rank, as far as they talk to other ranks."""

    def __init__(self, job: "ParallelJob", rank: int) -> None:
        super().__init__(job, rank)
        self._parallel = job
        self._rank = rank

    def _group(self, dim: str) -> act.Group:
        return self._parallel.mesh.group(dim, self._rank)

    def _all(
        self, dim: str, op: str, elems: int, dur_ns: int, wrappers: tuple[act.Op, ...] = ()
    ) -> Exchanging:
        """A collective of the whole group."""
        collective = act.Collective(op, self._group(dim), elems, "BFloat16", BF16_BYTES)
        return self._exchange(collective, dur_ns, _STREAMS[dim], wrappers)

    def _send(self, kind: str, dim: str, peer: int, message: tuple[int, int]) -> Exchanging:
        """Send (elements, transfer time) to a rank; ``kind`` chooses the stream."""
        return self._to_peer("send", kind, dim, (self._rank, peer), message)

    def _receive(self, kind: str, dim: str, peer: int, message: tuple[int, int]) -> Exchanging:
        """Receive (elements, transfer time) from a rank."""
        return self._to_peer("recv", kind, dim, (peer, self._rank), message)

    def _to_peer(
        self, op: str, kind: str, dim: str, peers: tuple[int, int], message: tuple[int, int]
    ) -> Exchanging:
        elems, dur_ns = message
        group = self._group(dim)
        collective = act.Collective(op, group, elems, "BFloat16", BF16_BYTES, peers)
        return self._exchange(collective, dur_ns, _PEER_STREAMS[kind, op], ())

    def _within_layer(
        self, exchange: LayerExchange, op: str, wrappers: tuple[act.Op, ...]
    ) -> Generator[act.Action, None, list[act.Event]]:
        """An exchange inside a layer; returns what the next node need not wait for."""
        first_ns = exchange.dur_ns // 2 if exchange.halved else exchange.dur_ns
        done = yield from self._part(exchange, op, first_ns, wrappers)
        if exchange.beside:
            return done
        for event in done:
            yield act.Await(event, act.MAIN_STREAM)
        if not exchange.halved:
            return []
        return (yield from self._part(exchange, op, exchange.dur_ns - first_ns, wrappers))

    def _part(
        self, exchange: LayerExchange, op: str, dur_ns: int, wrappers: tuple[act.Op, ...]
    ) -> Generator[act.Action, None, list[act.Event]]:
        if op != "ring":
            return [(yield from self._all(exchange.dim, op, exchange.elems, dur_ns, wrappers))]
        ranks = self._group(exchange.dim).ranks
        place, message = ranks.index(self._rank), (exchange.elems, dur_ns)
        following, previous = ranks[(place + 1) % len(ranks)], ranks[place - 1]
        sent = yield from self._send("cp", exchange.dim, following, message)
        return [sent, (yield from self._receive("cp", exchange.dim, previous, message))]
