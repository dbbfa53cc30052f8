"""Which streams of different GPUs belong to one communicator, where no record says it?

NCCL gives each communicator a stream of its own, and all members of a rendezvous end together.
Streams whose kernels are the same in every step, and end together, are one channel. That needs
clocks which agree already, and no rank may be missing: how large such a group is, nobody wrote
down. Groups must divide the job evenly; anything else is left alone.
"""

from collections import defaultdict
from typing import Any

import numpy as np

from tracelens.comm.channels import Channel
from tracelens.comm.participants import Array, Participants

_LEAST = 3
_TOGETHER_NS = 200_000
"""Ends of one exchange on the GPUs of a host lie closer together than this."""
_NEAR_SHARE = 0.9

_Stream = tuple[int, int, str]


def inferred_channels(table: Participants, ranks_missing: bool) -> list[Channel]:
    """Return channels of kernels without a recorded group; none where ranks are missing."""
    if ranks_missing:
        return []
    alike: dict[tuple[Any, ...], dict[_Stream, Array]] = defaultdict(dict)
    for stream, every in _streams(table).items():
        stepped = table.step[every] >= 0
        rows = every[stepped] if stepped.any() else every
        if len(rows) >= _LEAST:
            alike[_signature(table, rows)][stream] = rows
    channels = []
    for number, streams in enumerate(alike.values()):
        clusters = _clusters(table, streams)
        if _is_even(table, clusters):
            channels += [
                Channel(
                    ("stream", number, *cluster[0]),
                    {gpu: streams[gpu, stream, way] for gpu, stream, way in sorted(cluster)},
                    len(cluster),
                    is_message=bool(cluster[0][2]),
                    is_inferred=True,
                )
                for cluster in clusters
            ]
    return channels


def _streams(table: Participants) -> dict[_Stream, Array]:
    found: dict[_Stream, list[int]] = defaultdict(list)
    for row in np.flatnonzero(table.process_group < 0).tolist():
        key = (int(table.gpu[row]), int(table.stream[row]), str(table.direction[row]))
        found[key].append(row)
    return {key: np.array(rows) for key, rows in found.items()}


def _signature(table: Participants, rows: Array) -> tuple[Any, ...]:
    """What a stream does: operations in order, step by step, and between which places."""
    ends = np.sort(np.stack([table.place[rows], table.peer_place[rows]]), axis=0)
    columns = (table.step[rows], table.collective[rows], *ends)
    return tuple(tuple(column.tolist()) for column in columns)


def _clusters(table: Participants, streams: dict[_Stream, Array]) -> list[list[_Stream]]:
    """Join streams that end together with the first of a cluster."""
    clusters: list[list[_Stream]] = []
    for stream, rows in sorted(streams.items()):
        home = next(
            (
                cluster
                for cluster in clusters
                if all(stream[0] != other[0] for other in cluster)
                and _together(table, streams[cluster[0]], rows)
            ),
            None,
        )
        if home is None:
            clusters.append([stream])
        else:
            home.append(stream)
    return clusters


def _together(table: Participants, first: Array, second: Array) -> bool:
    """Whether two streams meet: their kernels overlap, and end closer than to the neighbors."""
    apart = np.abs(table.end_ns[first] - table.end_ns[second])
    between = np.diff(table.end_ns[first])
    near = apart <= min(_TOGETHER_NS, int(np.median(between)) // 4)
    meet = (table.start_ns[first] < table.end_ns[second]) & (
        table.start_ns[second] < table.end_ns[first]
    )
    return bool((near & meet).mean() >= _NEAR_SHARE)


def _is_even(table: Participants, clusters: list[list[_Stream]]) -> bool:
    """Whether the clusters can be all groups of one dimension, or messages between two."""
    sizes = {len(cluster) for cluster in clusters}
    if len(sizes) != 1 or 1 in sizes:
        return False
    if any(way for cluster in clusters for _, _, way in cluster):
        return sizes == {2} and all(
            {way for _, _, way in cluster} == {"send", "recv"} for cluster in clusters
        )
    members = [gpu for cluster in clusters for gpu, _, _ in cluster]
    return len(members) == len(set(members)) == len(table.ranks)
