"""Slurm's lists of nodes."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hetopt.inventory.hostlist import expand_hosts


@pytest.mark.parametrize(
    ("text", "hosts"),
    [
        ("n1", "n1"),
        ("n1,n2", "n1 n2"),
        ("node[01-04,07]", "node01 node02 node03 node04 node07"),
        ("node[9-11]", "node9 node10 node11"),
        ("node[098-101]", "node098 node099 node100 node101"),
        ("rack[1-2]-gpu", "rack1-gpu rack2-gpu"),
        ("r[1-2]n[1-2]", "r1n1 r1n2 r2n1 r2n2"),
        ("a[1,3],login1,b[2]", "a1 a3 login1 b2"),
        ("10.0.0.[1-2]", "10.0.0.1 10.0.0.2"),
    ],
)
def test_expanded(text: str, hosts: str) -> None:
    assert expand_hosts(text) == hosts.split()


@pytest.mark.parametrize(
    "text",
    ["", "a,", "n[1-2", "n1-2]", "n[]", "n[a-b]", "n[2-1]", "n[1-]", "n[1-999999999]",
     "n[1-999]m[1-999]", "n[[1]]"],
)  # fmt: skip
def test_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"^is '"):
        expand_hosts(text)


@pytest.mark.parametrize(
    ("text", "hosts"),
    [
        ("a[0001-1000],b[001-200]", 1_200),
        ("login1,login2,a[1-60000]", 60_002),
        ("a[1-50000],b[1-50000]", 100_000),
    ],
)
def test_hosts_of_several_parts_add_up(text: str, hosts: int) -> None:
    assert len(expand_hosts(text)) == hosts


def test_more_hosts_than_any_site_has_are_refused() -> None:
    for text in ("a[1-50000],b[1-50001]", "n[1-999999999]"):
        with pytest.raises(ValueError, match="more than 100000 hosts"):
            expand_hosts(text)


@given(
    st.lists(
        st.tuples(
            st.from_regex(r"[a-z]{1,3}-?", fullmatch=True),
            st.lists(st.tuples(st.integers(0, 99), st.integers(0, 9)), min_size=1),
            st.integers(1, 4),
        ),
        min_size=1,
        max_size=3,
    )
)
def test_what_is_folded_is_unfolded(
    parts: list[tuple[str, list[tuple[int, int]], int]],
) -> None:
    text = ",".join(
        f"{prefix}[{','.join(f'{a:0{w}}-{a + n}' for a, n in ranges)}]"
        for prefix, ranges, w in parts
    )
    assert expand_hosts(text) == [
        f"{prefix}{i:0{w}}"
        for prefix, ranges, w in parts
        for a, n in ranges
        for i in range(a, a + n + 1)
    ]
