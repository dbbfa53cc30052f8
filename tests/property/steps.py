"""Which stretches of a soup are steps, read off the definitions?"""

from itertools import pairwise

from reference import MEANING

COMPUTE = ("flop", "compute")


def root(activity):
    return activity.what.leaf.partition(".")[0]


def launch_of(soup, activity):
    return None if activity.launch is None else soup.launches[activity.launch]


def members(soup, mark):
    """What was launched inside a mark."""
    start, end = mark
    launches = ((a, launch_of(soup, a)) for a in soup.activities)
    return [a for a, launch in launches if launch is not None and start <= launch.start < end]


def main_stream(soup):
    """The stream with most time of matmuls, else of compute, else of anything."""
    for roots in (("flop",), COMPUTE, None):
        total = {}
        for a in soup.activities:
            if roots is None or root(a) in roots:
                total[a.stream] = total.get(a.stream, 0) + a.end - a.start
        if any(total.values()):
            return min(total, key=lambda stream: (-total[stream], stream))
    raise AssertionError("a soup in which nothing lasts")


def boundary(soup, mark, stream):
    """Start of the first compute kernel of a step: on the main stream, if there is one."""
    own = [a for a in members(soup, mark) if root(a) in COMPUTE]
    main = [a for a in own if a.stream == stream] or own
    return min((a.start for a in main), default=None)


def windows(soup):
    """Return (step, start, end) of each step that can be analysed; none: the whole soup."""
    stream = main_stream(soup)
    starts = [(step, boundary(soup, mark, stream)) for step, mark in enumerate(soup.marks)]
    starts = [(step, start) for step, start in starts if start is not None]
    ordered = in_order(starts)
    found = [(step, start, end) for (step, start), (_, end) in pairwise(ordered)]
    if ordered and not found:
        step, start = ordered[0]
        end = max(a.end for a in members(soup, soup.marks[step]))
        return [(step, start, end)] if end > start else []
    if len(found) > 1 and found[0][0] == 0 and odd_start(soup, soup.marks[0]):
        del found[0]
    return found


def in_order(starts):
    """As many steps as can begin one after the other; of several choices the earliest from the end.

    A step that follows others in time may have been marked before them, when a trace is damaged.
    """
    lengths = []
    for place, (_, start) in enumerate(starts):
        lower = [lengths[i] for i in range(place) if starts[i][1] < start]
        lengths.append(1 + max(lower, default=0))
    chosen, limit = [], len(starts)
    for length in range(max(lengths, default=0), 0, -1):
        able = [i for i in range(limit) if lengths[i] == length]
        limit = min(able, key=lambda i: (starts[i][1], -i))
        chosen.append(starts[limit])
    return chosen[::-1]


def odd_start(soup, mark):
    """Whether the first step is not one of many: it ran queued work, or code was compiled in it."""
    start, end = mark
    if any(a.launch is None and start <= a.start < end for a in soup.activities):
        return True
    compiling = [
        max(0, min(c.end, end) - max(c.start, start))
        for c in soup.host
        if MEANING.get(c.name) == "host.compile" and c.table != "overhead"
    ]
    return 100 * sum(compiling) > end - start


def stretches(found):
    """Steps that follow each other, joined: (start, end, edges between)."""
    joined = []
    for _, start, end in found:
        if joined and joined[-1][1] == start:
            first, _, cuts = joined[-1]
            joined[-1] = (first, end, (*cuts, start))
        else:
            joined.append((start, end, ()))
    return joined
