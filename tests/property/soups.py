"""Random runs of one GPU: activities, their launches, and what the host did meanwhile."""

import os
import random
from dataclasses import dataclass, replace
from itertools import pairwise

from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st

SOUPS = int(os.environ.get("TRACELENS_SOUPS", "72"))
"""How many soups the reference is held against; the other properties see a fraction.

TRACELENS_SOUPS raises it: 10,000 take about twenty minutes.
"""

US = 1_000
GRAIN = 2_520
"""Unit of time that is divisible by 1 to 10: shares between FLOP kernels leave no remainder.

No multiple of it is near 3, 20, 100 or 200 µs, where causes change.
"""


@dataclass(frozen=True)
class What:
    """A sort of activity and the leaf that its time must be charged to."""

    name: str
    leaf: str
    kind: str = "kernel"
    copy_kind: str | None = None
    dimension: str | None = None


GEMM = What("ampere_bf16_s16816gemm_bf16_128x128_ldg8_f2f_stages_32x5_nn", "flop.gemm")
ATTENTION = What("void flash_fwd_kernel<Flash_fwd_kernel_traits<128>>", "flop.attn")
ADD = What(
    "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float>>",
    "compute.elementwise",
)
SOFTMAX = What("softmax_warp_forward", "compute.softmax")
GRAPH = What("graph 7", "opaque.graph", kind="graph")
_REDUCE = "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)"
COMM = What(_REDUCE, "comm.unknown.undivided")
DP = What(_REDUCE, "comm.dp.undivided", dimension="dp")
TP = What(_REDUCE, "comm.tp.undivided", dimension="tp")
UPLOAD = What("Memcpy HtoD (Pinned -> Device)", "mem.h2d", "memcpy", "h2d")
DOWNLOAD = What("Memcpy DtoH (Device -> Pageable)", "mem.d2h", "memcpy", "d2h")
FILL = What("Memset (Device)", "mem.memset", "memset")
MIGRATION = What("Unified memory", "mem.h2d", "memcpy", "uvm_h2d")

FLOP = (GEMM, ATTENTION)
COMPUTE = (ADD, SOFTMAX)
COMMUNICATION = (COMM, DP, TP)
COPIES = (UPLOAD, DOWNLOAD, FILL)
EVERY = (*FLOP, *COMPUTE, GRAPH, *COMMUNICATION, *COPIES, MIGRATION)


@dataclass(frozen=True)
class Call:
    """Something on a host thread. ``table`` is where it is recorded."""

    name: str
    start: int
    end: int
    thread: int = 1
    table: str = "host_call"
    kind: str = "runtime"


@dataclass(frozen=True)
class Activity:
    """Something on the GPU; ``launch`` is a position in ``Soup.launches``."""

    what: What
    start: int
    end: int
    stream: int = 7
    launch: int | None = None


@dataclass(frozen=True)
class Wait:
    """A recorded wait of a stream, for what stream ``on`` was given before ``record``."""

    stream: int
    at: int
    on: int | None = None
    record: int | None = None

    def moved(self, place) -> "Wait":
        record = None if self.record is None else place(self.record)
        return replace(self, at=place(self.at), record=record)


@dataclass(frozen=True)
class Soup:
    """One GPU and its process. Positions are ids: earlier ones win ties."""

    activities: tuple[Activity, ...]
    launches: tuple[Call, ...] = ()
    host: tuple[Call, ...] = ()
    waits: tuple[Wait, ...] = ()
    marks: tuple[tuple[int, int], ...] = ()
    """What the host marked as steps, in order."""

    @property
    def window(self) -> tuple[int, int]:
        return min(a.start for a in self.activities), max(a.end for a in self.activities)

    @property
    def span(self) -> int:
        first, last = self.window
        return last - first

    def timed(self, place) -> "Soup":
        """Return the soup with every instant t moved to ``place(t)``."""

        def moved(items):
            return tuple(replace(x, start=place(x.start), end=place(x.end)) for x in items)

        return Soup(
            moved(self.activities),
            moved(self.launches),
            moved(self.host),
            tuple(wait.moved(place) for wait in self.waits),
        )


# What the host may be doing: (name, table, kind). Its meaning stands in reference.py.
HOST = (
    ("cudaMalloc", "host_call", "runtime"),
    ("cuModuleLoadData", "host_call", "driver"),
    ("cudaFuncGetAttributes", "host_call", "runtime"),
    ("cudaDeviceSynchronize", "host_call", "runtime"),
    ("cudaMemcpy", "host_call", "runtime"),
    ("poll", "host_call", "os"),
    ("aten::mm", "op", None),
    ("aten::item", "op", None),
    ("enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", "range", "annotation"),
    ("gc", "range", "annotation"),
    ("save_checkpoint", "range", "annotation"),
    ("triton compile kernel_0", "range", "annotation"),
    ("block.mlp", "range", "annotation"),
    ("CUPTI Buffer Flush", "overhead", None),
    ("Lazy Function Loading", "overhead", None),
    ("Command Buffer Full", "overhead", None),
)
LAUNCHERS = (1, 2)
BYSTANDER = 9


def is_cuda(call):
    return call.kind in {"runtime", "driver"} and call.table == "host_call"


class Brewer:
    """Makes one soup out of a stream of random numbers.

    Hypothesis draws only the seed: soups have to be large to meet rare causes, and drawing each of
    their numbers takes longer than attributing them.
    """

    def __init__(self, seed, unit, whats, exact):
        self._dice = random.Random(seed)
        self._unit = unit
        self._whats = whats
        self._offsets = (0, *exact)
        self._names = self._dice.sample(HOST, 5)  # few, so that they meet

    def soup(self):
        activities, launches = self._gpu()
        host = []
        for _ in range(self._dice.randint(0, 20)):
            host.append(self._call([a.end for a in activities], [c.end for c in host]))
        waits = [self._wait(activities, launches) for _ in range(self._dice.randint(0, 3))]
        return Soup(tuple(activities), tuple(launches), tuple(host), tuple(waits))

    def _gpu(self):
        dice, unit = self._dice, self._unit
        activities, launches = [], []
        end = 0
        for _ in range(dice.randint(1, 12)):
            start = end + dice.choice((dice.randint(-12, 8), self._length(130))) * unit
            start += dice.choice(self._offsets)
            what = dice.choice(self._whats)
            stop = start + dice.choice((self._length(40), self._length(8))) * unit
            number = self._launch(launches, end, start)
            activities.append(Activity(what, start, stop, dice.choice((7, 8)), number))
            end = max(end, stop)
        if not any(a.end > a.start for a in activities):
            activities[0] = replace(activities[0], end=activities[0].start + unit)
        return activities, launches

    def _wait(self, activities, launches):
        """Return a wait near the end of an activity, or between two launches."""
        dice = self._dice
        at = dice.choice(activities).end + self._some(60)
        if not launches or dice.randint(0, 2) == 0:
            return Wait(dice.choice((7, 8)), at)
        record = dice.choice(launches).start + self._some(3)
        at = max(record, dice.choice((at, record, record + self._length(40) * self._unit)))
        return Wait(dice.choice((7, 8)), at, dice.choice((7, 8)), record)

    def _launch(self, launches, g0, g1):
        """Add or share the launch of what ends the gap from g0 to g1; return its position."""
        dice = self._dice
        how = dice.choice(("own", "own", "own", "own", "shared", None))
        if how == "shared" and launches:
            launches[-1] = replace(launches[-1], name="cudaGraphLaunch")
        elif how:
            length = self._length(130) * self._unit
            begun, returned = dice.choice(
                (
                    (g1 - self._some(140), None),  # anywhere before
                    (g0 + self._some(20), None),  # about when the gap began
                    (g0 - length, g0),  # returned just then
                    (g0 - length, g1 + length),  # all through the gap
                    (g1 - 2 * length, g1 - length),
                )
            )
            begun += dice.choice(self._offsets)
            returned = (begun + length if returned is None else returned) + dice.choice(
                self._offsets
            )
            launches.append(
                Call("cudaLaunchKernel", begun, max(begun, returned), dice.choice(LAUNCHERS))
            )
        return len(launches) - 1 if how else None

    def _call(self, gaps, earlier):
        """Return something on the host, near where a gap or another call begins or ends."""
        dice = self._dice
        name, table, kind = dice.choice(self._names)
        length = dice.choice((self._length(260), self._length(40))) * self._unit
        at = dice.choice(gaps)
        start = dice.choice(
            (
                at + self._some(60),
                at,
                at - length,
                dice.choice(earlier or gaps) + dice.choice((0, 200)) * self._unit,
            )
        ) + dice.choice(self._offsets)
        end = start + length + dice.choice(self._offsets)
        thread = dice.choice((1, 1, 2, BYSTANDER))
        return Call(name, start, max(start, end), thread, table, kind)

    def _some(self, most):
        return self._dice.randint(-most, most) * self._unit

    def _length(self, longest):
        """Return a number of units, often one at which causes change, or the next."""
        at = self._dice.choice((3, 20, 100, 200, None, None, None, None))
        if at is None or at >= longest:
            return self._dice.randint(0, longest)
        return at + self._dice.randint(0, 1)


def soups(unit=US, whats=EVERY, exact=()):
    """Random soups whose times are multiples of ``unit`` but for the offsets in ``exact``."""
    return st.integers(0, 2**48).map(lambda seed: Brewer(seed, unit, whats, exact).soup())


def exchanges():
    """Random soups in which compute waits for one of several exchanges, by recorded waits."""
    return st.integers(0, 2**48).map(lambda seed: _exchanging(random.Random(seed)))


def _exchanging(dice):
    activities, launches, waits = [], [], []
    t = 0

    def start(what, stream, begin, length):
        called = begin - dice.choice((1, 2, 5)) if dice.randint(0, 19) else None
        if called is not None:
            launches.append(Call("cudaLaunchKernel", called * US, called * US + 500))
        number = None if called is None else len(launches) - 1
        activities.append(Activity(what, begin * US, (begin + length) * US, stream, number))

    for _ in range(dice.randint(1, 4)):
        first = len(activities)
        for _ in range(dice.randint(1, 4)):
            what = dice.choice((*COMMUNICATION, *COMMUNICATION, UPLOAD))
            start(what, dice.choice((7, 8, 8, 9)), t + dice.randint(0, 4), dice.randint(1, 8))
        ends = [a.end // US for a in activities[first:]]
        resumed = dice.choice((max(ends), dice.choice(ends))) + dice.choice((0, 0, 1))
        for _ in range(dice.choice((1, 1, 1, 2))):
            start(dice.choice((GEMM, ADD)), dice.choice((7, 7, 8)), resumed, dice.randint(1, 4))
        for _ in range(dice.randint(0, 4)):
            record = t + dice.randint(-5, 5)
            at = record + dice.choice((0, 0, 1, 2))
            stream, on = dice.choice((7, 7, 8, 9)), dice.choice((7, 8, 8, 9, 9))
            waits.append(Wait(stream, at * US, on, record * US))
            if dice.randint(0, 2) == 0:  # handed on by a stream that only waits
                waits[-1] = replace(waits[-1], stream=6)
                waits.append(Wait(7, (at + 1) * US, 6, (at + 1) * US))
        t = max(a.end for a in activities) // US + dice.randint(0, 2)
    return Soup(tuple(activities), tuple(launches), (), tuple(waits))


def marked(soup, seed):
    """Return the soup with some marks of steps, near where launches or kernels begin."""
    dice = random.Random(seed)
    edges = sorted(
        {x.start + dice.choice((0, 0, 1, -1, 5 * US)) for x in (*soup.launches, *soup.activities)}
    )
    chosen = sorted(dice.sample(edges, min(len(edges), dice.randint(2, 6))))
    pairs = [(low, high) for low, high in pairwise(chosen) if dice.random() < 0.85]
    return replace(soup, marks=tuple(pairs))


def smallest(soup, fails):
    """Return a soup that fails as this one does, but not without any of its events."""
    smaller = True
    while smaller:
        smaller = False
        for number in range(size(soup)):
            less = without(soup, number)
            if any(a.end > a.start for a in less.activities) and fails(less):
                soup, smaller = less, True
                break
    return soup


def size(soup):
    return sum(map(len, (soup.activities, soup.launches, soup.host, soup.waits)))


def without(soup, number):
    """Delete one event, counted through activities, launches, host and waits."""
    lists = [list(soup.activities), list(soup.launches), list(soup.host), list(soup.waits)]
    which = 0
    while number >= len(lists[which]):
        number -= len(lists[which])
        which += 1
    del lists[which][number]
    if which == 1:
        lists[0] = [replace(a, launch=_renumbered(a.launch, number)) for a in lists[0]]
    return Soup(*map(tuple, lists), soup.marks)


def _renumbered(launch, deleted):
    if launch is None or launch == deleted:
        return None
    return launch - (launch > deleted)


def solid(soup, unit=GRAIN):
    """Return the soup with everything that takes no time made to last one unit."""

    def lasting(items):
        return tuple(replace(x, end=max(x.end, x.start + unit)) for x in items)

    return replace(
        soup,
        activities=lasting(soup.activities),
        launches=lasting(soup.launches),
        host=lasting(soup.host),
    )


def apart(soup):
    """Move everything by a few nanoseconds so that no two edges coincide.

    The offsets are multiples of three and stay below what separates a multiple of GRAIN from the
    lengths at which causes change.
    """
    number = iter(range(50))

    def spread(items):
        moved = []
        for item in items:
            shift = 3 * next(number)
            moved.append(replace(item, start=item.start + shift, end=item.end + shift))
        return tuple(moved)

    return Soup(
        spread(soup.activities),
        spread(soup.launches),
        spread(soup.host),
        tuple(_spread_wait(wait, 3 * next(number)) for wait in soup.waits),
    )


def _spread_wait(wait, shift):
    return wait.moved(lambda t: t + shift)


BATCH = 6


def batches(soup):
    """Soups that go through the stages together: a run of many costs little more than one."""
    return st.lists(soup, min_size=BATCH, max_size=BATCH)


def budget(share=1):
    """Settings for a property that takes soups in batches and sees one in ``share`` of them."""
    return settings(
        max_examples=max(3, SOUPS // (BATCH * share)),
        deadline=None,
        phases=[Phase.reuse, Phase.generate],  # a smaller seed is no smaller soup
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
    )
