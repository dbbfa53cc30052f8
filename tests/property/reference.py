"""Who owns each instant and why the GPU is idle, read off the definitions one instant at a time.

It shares no code and no data with the program: the meaning of each host name is written down here
again, and nothing is computed for more than one instant at once.
"""

from collections import Counter
from itertools import pairwise

from soups import DOWNLOAD, is_cuda

PRECEDENCE = ("flop", "compute", "opaque", "comm", "mem")
MEANING = {
    "cudaMalloc": "host.alloc",
    "cuModuleLoadData": "host.compile",
    "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__": "host.dataloader",
    "gc": "host.gc",
    "save_checkpoint": "host.ckpt",
    "triton compile kernel_0": "host.compile",
    "CUPTI Buffer Flush": "host.profiler",
    "Lazy Function Loading": "host.compile",
    "poll": "host.blocked",
}
WAITS_FOR_GPU = {"cudaDeviceSynchronize", "cudaMemcpy", "aten::item"}
SAYS_NOTHING = {"block.mlp", "Command Buffer Full"}
SLOW = "cudaFuncGetAttributes"
FIRST_LABELS = (
    "host.profiler",
    "host.gc",
    "host.ckpt",
    "host.dataloader",
    "host.alloc",
    "host.compile",
    "host.cuda_api",
)
BLOCKED = "host.blocked"
SILENT_NS = 200_000
FOREVER = 10**15
UNSURE = "unsure"


class Reference:
    """One soup in one window."""

    def __init__(self, soup, window, cuts=()):
        self.soup = soup
        self.first, self.last = window
        self.cuts = cuts
        self.order = sorted(
            range(len(soup.activities)), key=lambda i: (soup.activities[i].start, i)
        )
        self.threads = {
            soup.launches[a.launch].thread for a in soup.activities if a.launch is not None
        }
        self.blocking = {
            soup.launches[a.launch]
            for a in soup.activities
            if a.launch is not None and a.what == DOWNLOAD
        }
        self.host = [c for c in (*soup.launches, *soup.host) if c.end > c.start]
        self.kappa = self._kappa()

    # --- the whole account ---------------------------------------------------------------------

    def causes(self):
        """Return time by (leaf, enabled by a synchronisation)."""
        total = Counter()
        for low, high in pairwise(self._edges()):
            busy = self._running(low)
            if busy:
                for leaf, dur in self._owners(busy, low, high):
                    total[leaf, False] += dur
            else:
                total[self._idle(low)] += high - low
        return +total

    def _edges(self):
        """Instants at which anything may change, within the window."""
        soup = self.soup
        instants = {self.first, self.last}
        for item in (*soup.activities, *soup.launches, *self.host):
            instants |= {item.start, item.end}
        return sorted(t for t in instants if self.first <= t <= self.last)

    def _running(self, t):
        a = self.soup.activities
        return [i for i in self.order if a[i].start <= t < a[i].end]

    # --- busy ----------------------------------------------------------------------------------

    def _root(self, i):
        return self.soup.activities[i].what.leaf.partition(".")[0]

    def _owners(self, busy, low, high):
        a = self.soup.activities
        best = min((self._root(i) for i in busy), key=PRECEDENCE.index)
        top = [i for i in busy if self._root(i) == best]
        if best == "comm":
            top = [self._blocker(top, low)]
        if best != "flop":
            return [(a[top[0]].what.leaf, high - low)]
        return self._shares(top, low, high)

    def _shares(self, top, low, high):
        """Equal parts; the remainder of a segment between neighbouring GPU edges to the first."""
        a = self.soup.activities
        begun, ended = self._segment(low)
        share, rest = divmod(ended - begun, len(top))
        parts, at = [], begun
        for place, i in enumerate(top):
            size = share + (rest if place == 0 else 0)
            overlap = max(0, min(at + size, high) - max(at, low))
            parts.append((a[i].what.leaf, overlap))
            at += size
        return parts

    def _segment(self, t):
        edges = {self.first, self.last, *self.cuts}
        for a in self.soup.activities:
            edges |= {min(max(x, self.first), self.last) for x in (a.start, a.end)}
        return max(e for e in edges if e <= t), min(e for e in edges if e > t)

    def _computes(self, t):
        return any(self._root(i) in {"flop", "compute", "opaque"} for i in self._running(t))

    def _blocker(self, top, t):
        """Of several exposed collectives the one that compute resumed after."""
        a = self.soup.activities
        run_start, run_end = self._stretch(t, lambda x: not self._computes(x), self._gpu_edges())
        inside = [
            i
            for i in self.order
            if self._root(i) == "comm" and max(a[i].start, run_start) < min(a[i].end, run_end)
        ]

        def latest(i):
            return a[i].end, a[i].start, -i

        finished = [i for i in inside if a[i].end <= run_end]
        finished = [i for i in finished if self._held_back(i, run_end)] or finished
        if finished and max(finished, key=latest) in top:
            return max(finished, key=latest)
        return max(top, key=latest)

    def _held_back(self, i, v):
        """Tell whether compute that starts at v explicitly waited for activity i."""
        a = self.soup.activities
        for wait in self.soup.waits:
            if wait.record is None or self._awaited(wait) != i:
                continue
            resuming = [
                k
                for k in self.order
                if self._root(k) in {"flop", "compute", "opaque"}
                and a[k].stream == wait.stream
                and a[k].end > a[k].start >= a[i].end
            ]
            launch = self._launch(resuming[0]) if resuming else None
            if launch and a[resuming[0]].start == v and launch.start > wait.at:
                return True
        return False

    def _given(self, stream, t):
        """Return what a stream was given last before t, or that nobody can tell."""
        queue = [i for i in self.order if self.soup.activities[i].stream == stream]
        before = [n for n, i in enumerate(queue) if self._launch_start(i) < t]
        following = before[-1] + 1 if before else 0
        if following < len(queue) and self._launch(queue[following]) is None:
            return UNSURE
        return queue[before[-1]] if before else None

    def _awaited(self, wait):
        """Return the activity that a wait is for: of all that its record stands behind the last."""
        a = self.soup.activities
        given = self._given(wait.on, wait.record)
        if given == UNSURE:
            return None
        found = [] if given is None else [given]
        for other in self.soup.waits:
            behind = other.record is not None and other.stream == wait.on
            if behind and other.at < wait.record and self._given(wait.on, other.at) == given:
                found.append(self._awaited(other))
        return max(
            (i for i in found if i is not None),
            key=lambda i: (a[i].end, a[i].start, -i),
            default=None,
        )

    def _gpu_edges(self):
        a = self.soup.activities
        inner = {x for i in a for x in (i.start, i.end) if self.first < x < self.last}
        return sorted(inner | {self.first, self.last})

    @staticmethod
    def _stretch(t, holds, edges):
        """Return the longest interval around t, cut at edges, in which ``holds`` is true."""
        place = max(i for i, edge in enumerate(edges) if edge <= t)
        low, high = place, place + 1
        while low > 0 and holds(edges[low - 1]):
            low -= 1
        while high < len(edges) - 1 and holds(edges[high]):
            high += 1
        return edges[low], edges[high]

    # --- idle ----------------------------------------------------------------------------------

    def _ender(self, g1, last):
        a = self.soup.activities
        able = [
            i
            for i in self.order
            if a[i].end > a[i].start
            and not (a[i].what.copy_kind or "").startswith("uvm")
            and g1 <= a[i].start
        ]
        if not able:
            return None
        starts = min(a[i].start for i in able)
        if starts > last:
            return None
        together = [i for i in able if a[i].start == starts]
        return min(together, key=lambda i: (self._launch_start(i), i))

    def _launch(self, i):
        number = self.soup.activities[i].launch
        return None if number is None else self.soup.launches[number]

    def _launch_start(self, i):
        launch = self._launch(i)
        return FOREVER if launch is None else launch.start

    def _kappa(self):
        """Nearest-rank 99th percentile of queued gaps of the whole trace, within 3 and 20 µs."""
        a = [x for x in self.soup.activities if x.end > x.start]
        lengths = []
        for g0 in {x.end for x in a}:
            later = [x.start for x in a if x.start >= g0]
            if any(x.start <= g0 < x.end for x in a) or not later:
                continue
            g1 = min(later)
            ender = self._ender(g1, FOREVER)
            launch = None if ender is None else self._launch(ender)
            if launch and launch.end <= g0 < g1:
                lengths.append(g1 - g0)
        lengths.sort()
        worst = lengths[-(-99 * len(lengths) // 100) - 1] if lengths else 0
        return min(max(worst, 3_000), 20_000)

    def _idle(self, t):
        a = [x for x in self.soup.activities if x.end > x.start]
        g0 = max([self.first, *(x.end for x in a if x.end <= t)])
        g1 = min([self.last, *(x.start for x in a if x.start > t)])
        e = self._ender(g1, self.last)
        launch = None if e is None else self._launch(e)
        if launch is None:
            return ("idle.tail" if e is None else "idle.unknown"), False
        if launch.end > g0 and t < launch.start:
            return self._host(t, g0, launch.thread)
        return (self._starved if launch.end > g0 else self._queued)(e, g0, g1, t), False

    def _starved(self, e, g0, g1, t):
        launch = self._launch(e)
        in_call = min(launch.end, g1) - max(launch.start, g0)
        if t < launch.end and in_call > 100_000 and launch.name != "cudaGraphLaunch":
            return "host.compile" if self._first_of_name(e) else "host.cuda_api"
        if t >= launch.end and g1 - launch.end > 100_000:
            return self._queued(e, launch.end, g1, t)
        return "gap.launch_latency"

    def _queued(self, e, g0, g1, _t):
        a = self.soup.activities
        before = self.order[: self.order.index(e)]
        earlier = [i for i in before if a[i].launch == a[e].launch and a[i].end > a[i].start]
        if a[e].launch is not None and earlier:
            return "gap.graph"
        own = [i for i in before if a[i].stream == a[e].stream]
        since = -FOREVER
        if own and self._launch(own[-1]):
            since = self._launch(own[-1]).start
        waits = [w for w in self.soup.waits if w.stream == a[e].stream and since < w.at <= g1]
        if waits and all(a[i].end < g0 for i in own):
            return "gap.dependency"
        return "gap.kernel" if g1 - g0 <= self.kappa else "idle.unknown"

    def _first_of_name(self, e):
        """Tell whether loading a kernel explains a long launch call."""
        a = self.soup.activities
        alike = [i for i in self.order if a[i].what.name == a[e].what.name]
        first = min(
            alike, key=lambda i: -FOREVER if self._launch(i) is None else self._launch(i).start
        )
        return a[e].what.kind == "kernel" and first == e

    # --- host ----------------------------------------------------------------------------------

    def _host(self, t, g0, thread):
        drained = self._drained(g0, thread)
        plain = "host.sync" if drained else "host.dispatch"
        leaf = self._doing(t, thread)
        if leaf in {"inside", "between"}:
            leaf = plain
        return leaf, drained and leaf != "host.sync"

    def _doing(self, t, thread):
        """Return what the host did: a leaf, ``inside`` something, or ``between`` two things."""
        # A thread that is silent, or waits in the system, may wait for one that is at work.
        own = self._strongest(t, [thread])
        if own == BLOCKED:
            other = self._of_others(t, thread)
            alone = self._silence(t, lambda c: self._speaks_beside(c, thread)) > SILENT_NS
            return other or (BLOCKED if alone else "between")
        leaf = own or self._strongest(t, self.threads, but=BLOCKED)
        if leaf is not None:
            return leaf
        quiet = min(
            self._silence(t, lambda c: self._speaks(c, [thread])),
            self._silence(
                t, lambda c: self._speaks(c, self.threads) and self._meaning(c) != BLOCKED
            ),
        )
        if quiet <= SILENT_NS:
            return "between"
        return BLOCKED if self._of_others(t, thread) == BLOCKED else "host.unlabelled"

    def _of_others(self, t, thread):
        """Return what other threads did; that they wait in the system counts least."""
        found = {
            self._meaning(c)
            for c in self.host
            if c.start <= t < c.end and self._speaks_beside(c, thread)
        }
        return next((leaf for leaf in (*FIRST_LABELS, "inside", BLOCKED) if leaf in found), None)

    def _speaks_beside(self, call, thread):
        return call.thread != thread and self._speaks(call, self.threads)

    def _drained(self, g0, thread):
        """Tell whether the host waited for the GPU when the gap began."""
        waiting = {c.thread for c in self.host if self._waits_for_gpu(c) and c.start <= g0 < c.end}
        if self._strongest(g0, [thread]) in {None, BLOCKED}:
            return bool(waiting & self.threads)
        return thread in waiting

    def _waits_for_gpu(self, call):
        return call.name in WAITS_FOR_GPU or call in self.blocking

    def _strongest(self, t, threads, but=None):
        found = {
            self._meaning(c) for c in self.host if c.start <= t < c.end and self._speaks(c, threads)
        }
        order = (*FIRST_LABELS, BLOCKED, "inside")
        return next((leaf for leaf in order if leaf in found and leaf != but), None)

    def _speaks(self, call, threads):
        if call.name in SAYS_NOTHING or self._belongs_to_cuda(call):
            return False
        # The profiler and the loading of code stop the process, whatever thread reports them.
        return call.thread in threads or call.table == "overhead"

    def _belongs_to_cuda(self, call):
        """Tell whether a call into the system is made by a call into CUDA."""
        return call.kind == "os" and any(
            is_cuda(c) and c.thread == call.thread and c.start <= call.start < c.end
            for c in self.host
        )

    def _meaning(self, call):
        if call.name == SLOW and call.end - call.start > 20_000:
            return "host.cuda_api"
        if self._retries(call):
            return "host.alloc"
        return MEANING.get(call.name, "inside")

    def _retries(self, call):
        """Tell whether the allocator waits for the GPU between freeing and trying again."""
        if not (is_cuda(call) and self._waits_for_gpu(call)):
            return False
        calls = [c for c in self.host if is_cuda(c) and c.thread == call.thread]
        calls.sort(key=lambda c: c.start)
        place = next(i for i, c in enumerate(calls) if c is call)
        around = calls[place - 1 : place] + calls[place + 1 : place + 2]
        return [MEANING.get(c.name) for c in around] == ["host.alloc", "host.alloc"]

    def _silence(self, t, speaks):
        """Length of the stretch around t in which nothing speaks."""
        spoken = [c for c in self.host if speaks(c)]
        before = max([-FOREVER, *(c.end for c in spoken if c.end <= t)])
        after = min([FOREVER, *(c.start for c in spoken if c.start > t)])
        return after - before
