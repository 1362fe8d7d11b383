# SPDX-License-Identifier: Apache-2.0
"""The C that finds the column of an address: a constant, a tree of branches, nodes, or a trie."""

from ipaddress import IPv4Address, IPv6Address

from policyc.backends.ebpf_c.tree import tree
from policyc.ir.plan import AddressLayout, AddressPlan, DirectionPlan

LOW_HALF = (1 << 64) - 1
PARAMETER = {4: "__be32 address", 6: "const struct pc_addr6 *address"}


def emit_addresses(direction: DirectionPlan, family: int) -> str:
    """The function that finds the column of an address that no pod holds."""
    address, short = direction.addresses[family], direction.short
    head = f"static __always_inline __u32 pc_column{family}_{short}({PARAMETER[family]})\n{{"
    match address.layout:
        case AddressLayout.CONSTANT:
            body = [
                "\t(void)address; /* one column */",
                f"\treturn {address.runs[0][1]};",
            ]
        case AddressLayout.CODE:
            body = _code(address)
        case AddressLayout.TREE:
            body = _tree4(address, short) if family == 4 else _tree6(address)
        case AddressLayout.FANS:
            body = _fans(address, short)
        case AddressLayout.LPM:
            body = _trie(family, short)
    return "\n".join([head, *body, "}"])


def _trie(family: int, short: str) -> list[str]:
    bits, value = (32, "address") if family == 4 else (128, "*address")
    return [
        f"\tstruct pc_cidr{family}_key key = {{.length = {bits}, .address = {value}}};",
        f"\t__u32 *column = bpf_map_lookup_elem(&pc_cidr{family}_{short}, &key);",
        "",
        "\treturn column ? *column : 0;",
    ]


def _tree4(address: AddressPlan, short: str) -> list[str]:
    root = str(address.root)
    if address.roots:
        root = f"pc_word_at(&pc_root4_{short}, a >> {32 - address.root_bits})"
    return [
        "\t__u32 a = bpf_ntohl(address);",
        f"\t__u32 root = {root};",
        "",
        f"\treturn pc_column_of(pc_search(&pc_nodes, root, a, {address.rounds[0]}));",
    ]


def _fans(address: AddressPlan, short: str) -> list[str]:
    return [
        "\t__u32 a = bpf_ntohl(address);",
        f"\t__u32 word = pc_word_at(&pc_root4_{short}, a >> 16);",
        "",
        f"\treturn pc_column_of(pc_search_fan(&pc_nodes, word, a & 0xffff, {address.rounds[0]}));",
    ]


def _tree6(address: AddressPlan) -> list[str]:
    rounds = ", ".join(map(str, address.rounds))
    return [f"\treturn pc_column_of(pc_search6(&pc_nodes, {address.root}, address, {rounds}));"]


def _code(address: AddressPlan) -> list[str]:
    runs = [(f"{first:#x}", str(column)) for first, column in address.runs]
    locals_ = _locals4() if address.family == 4 else _locals6(runs)
    return [*locals_, "", *tree(runs, _below4 if address.family == 4 else _below6, 1)]


def _locals4() -> list[str]:
    return ["\t__u32 a = bpf_ntohl(address);"]


def _locals6(runs: list[tuple[str, str]]) -> list[str]:
    """The 64-bit halves of the address that some comparison reads."""
    halves = ["\t__u64 hi = pc_addr6_high(address);"]
    if any(int(at, 16) & LOW_HALF for at, _ in runs):
        halves.append("\t__u64 lo = pc_addr6_low(address);")
    return halves


def _below4(threshold: str) -> str:
    value = int(threshold, 16)
    return f"a < 0x{value:08x} /* {IPv4Address(value)} */"


def _below6(threshold: str) -> str:
    value = int(threshold, 16)
    high, low = value >> 64, value & LOW_HALF
    below = f"hi < 0x{high:016x}ULL"
    if low:
        below += f" || (hi == 0x{high:016x}ULL && lo < 0x{low:016x}ULL)"
    return f"{below} /* {IPv6Address(value)} */"
