"""Networks between the nodes of a bundle, slowed to a plan's rates, on one machine.

Every node gets a network namespace. For boundaries between stages every pair of nodes
has a cable of its own (``shaped``), so none waits for another pair's bytes; for
collectives every node has one cable, to a switch (``switched``). At a node's end of a
cable, a token bucket (``tc``'s tbf) limits the rate to that of the plan. So real bytes
go over real connections. Needs root, ``ip`` and ``tc``.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from contextlib import contextmanager
from itertools import combinations
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

#: Large packets, so that headers take little of a link.
MTU = 9000
#: Bytes that a bucket sends at once: just more than one packet.
BURST = 10_000
#: Bytes that may be queued at a link's end: more than are ever in flight.
QUEUE = 64_000_000
#: TCP settings that use the whole cable, without a slow start after idle time.
TCP = {"tcp_congestion_control": "reno", "tcp_slow_start_after_idle": "0"}
#: Interface of a node's cable to the switch; the bridge in the switch.
CABLE = "cable"


def can_shape() -> bool:
    """Whether such networks can be made on this machine."""
    if os.geteuid() or shutil.which("ip") is None or shutil.which("tc") is None:
        return False
    name = f"hetopt-{os.getpid()}-try"
    try:
        _run("ip", "netns", "add", name)
    except subprocess.CalledProcessError:
        return False
    bucket = ("tbf", "rate", "1mbit", "burst", "10kb", "limit", "100kb")
    try:
        _in(name, "tc", "qdisc", "add", "dev", "lo", "root", *bucket)
    except subprocess.CalledProcessError:
        return False
    finally:
        _run("ip", "netns", "delete", name)
    return True


@contextmanager
def shaped(rates: Mapping[tuple[int, int], float], nodes: int) -> Iterator[list[str]]:
    """Make the networks of some nodes; yield the names of their namespaces.

    Parameters
    ----------
    nodes
        At least 2.
    rates
        Bytes per second and direction, by pair of nodes, the lower number first; other
        pairs are not slowed.
    """
    names = [f"hetopt-{os.getpid()}-{number}" for number in range(nodes)]
    made: list[str] = []
    try:
        for name in names:
            _run("ip", "netns", "add", name)
            made.append(name)
            _in(name, "ip", "link", "set", "lo", "up")
        for pair in combinations(range(nodes), 2):
            _connect(names, pair, rates.get(pair))
        yield names
    finally:
        for name in made:
            _run("ip", "netns", "delete", name)


@contextmanager
def switched(
    rate_bytes_per_s: float, inside_bytes_per_s: float, nodes: int
) -> Iterator[list[str]]:
    """Make nodes with one cable each to a switch; yield their namespaces.

    The switch's ends are not slowed: if all nodes send equally much to one another, no
    more arrives than leaves. With buckets there too, TCP has to adapt to two limits,
    and 8 nodes take 6% longer.

    Parameters
    ----------
    rate_bytes_per_s
        Rate of a node's cable, per direction, to all other nodes together.
    inside_bytes_per_s
        Rate of everything that the ranks of a node send to one another.
    """
    names = [f"hetopt-{os.getpid()}-{number}" for number in range(nodes)]
    switch = f"hetopt-{os.getpid()}-switch"
    made: list[str] = []
    try:
        for name in (switch, *names):
            _run("ip", "netns", "add", name)
            made.append(name)
            _in(name, "ip", "link", "set", "lo", "mtu", str(MTU), "up")
        _in(switch, "ip", "link", "add", CABLE, "type", "bridge")
        _in(switch, "ip", "link", "set", CABLE, "up")
        for node, name in enumerate(names):
            for key, value in TCP.items():
                _in(name, "sysctl", "-q", f"net.ipv4.{key}={value}")
            _let_out(name, "lo", inside_bytes_per_s)
            cable = ("type", "veth", "peer", "name", _end(node), "netns", switch)
            _in(name, "ip", "link", "add", CABLE, "mtu", str(MTU), *cable)
            _in(switch, "ip", "link", "set", _end(node), "mtu", str(MTU))
            _in(switch, "ip", "link", "set", _end(node), "master", CABLE, "up")
            _in(name, "ip", "address", "add", f"{address(node)}/24", "dev", CABLE)
            _in(name, "ip", "link", "set", CABLE, "up")
            _let_out(name, CABLE, rate_bytes_per_s)
        yield names
    finally:
        for name in made:
            _run("ip", "netns", "delete", name)


def address(node: int) -> str:
    """Return the address of a node."""
    return f"10.77.0.{node + 1}"


def move(folder: Path, names: list[str], cable: str | None = None) -> None:
    """Change the scripts of a bundle to start their ranks in these namespaces.

    Parameters
    ----------
    cable
        Name of a node's only cable; None if it has one to every other node.
    """
    for number, script in enumerate(sorted(folder.glob("nodes/*.sh"))):
        text = script.read_text("utf-8")
        end = cable or _end(0 if number else 1)
        first = (
            f"export MASTER_ADDR={address(0)} GLOO_SOCKET_IFNAME={end} "
            "OMP_NUM_THREADS=1\n"
        )
        inside = f"exec ip netns exec {names[number]} torchrun"
        text = text.replace("exec torchrun", f"{first}{inside}")
        script.write_text(text, "utf-8")


def _connect(
    names: list[str], pair: tuple[int, int], rate_bytes_per_s: float | None
) -> None:
    """Connect two nodes by a cable, with a token bucket at either end."""
    one, other = pair
    # A cable's ends are named after the node at the other one.
    cable = ("type", "veth", "peer", "name", _end(one), "netns", names[other])
    _in(names[one], "ip", "link", "add", _end(other), "mtu", str(MTU), *cable)
    _in(names[other], "ip", "link", "set", _end(one), "mtu", str(MTU))
    for here, there in ((one, other), (other, one)):
        name, end = names[here], _end(there)
        _in(name, "ip", "address", "add", f"{address(here)}/32", "dev", end)
        _in(name, "ip", "link", "set", end, "up")
        way = ("dev", end, "src", address(here))
        _in(name, "ip", "route", "add", f"{address(there)}/32", *way)
        if rate_bytes_per_s is not None:
            _let_out(name, end, rate_bytes_per_s)


def _let_out(name: str, end: str, rate_bytes_per_s: float) -> None:
    """Limit the rate of a cable's end in a namespace by a token bucket."""
    bucket = (
        *("tbf", "rate", f"{round(8 * rate_bytes_per_s)}bit"),
        *("burst", str(BURST), "limit", str(QUEUE)),
    )
    _in(name, "tc", "qdisc", "add", "dev", end, "root", *bucket)


def _end(node: int) -> str:
    return f"to{node}"


def _in(name: str, *words: str) -> None:
    _run("ip", "netns", "exec", name, *words)


def _run(*words: str) -> None:
    subprocess.run(words, check=True, capture_output=True)
