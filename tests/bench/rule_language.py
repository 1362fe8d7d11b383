# SPDX-License-Identifier: Apache-2.0
"""CPU seconds to read N rules of the rule language: `python tests/bench/rule_language.py [N]`.

From YAML to the Policy IR, in one process, and of that the parsing alone. No two rules are equal; they
have the handful of shapes that people write. Also how many seconds ANTLR takes for one new shape.
"""

import io
import random
import sys
import time
from collections.abc import Callable

from policyc.compiler.frontend.read import read_policies
from policyc.compiler.frontend.yaml.sources import StreamSource
from policyc.grammar.parse import parse_rules

HEAD = """\
apiVersion: policyc.dev/v1alpha1
kind: ExtendedPolicy
metadata: {name: p}
spec:
  tier: 500
  appliesTo: all
  rules: |
"""


def block(n: int, seed: int = 1) -> str:
    """An ingress section with n rules; the same n gives the same text."""
    rng = random.Random(seed)
    shapes: list[Callable[[int], str]] = [
        lambda i: f'allow tcp/{i % 60000 + 1} from pod.app == "a{i}" && ns.env in {{"p", "s{i}"}}',
        lambda i: f"deny any from 10.{i >> 16 & 255}.{i >> 8 & 255}.{i & 255} log",
        lambda i: f'allow tcp/443, udp/443 from namespace == "n{i}" or 2001:db8::/32 as "r{i}"',
        lambda i: f'allow icmp echo-request from !(pod.tier starts with "t{i}") limit {i + 1}/s',
    ]
    return "ingress:\n" + "".join(f"  {rng.choice(shapes)(i)}\n" for i in range(n))


def seconds(work: Callable[[], object]) -> float:
    """CPU seconds of this process."""
    start = time.process_time()
    work()
    return time.process_time() - start


def main() -> None:
    """Print one line for each measurement."""
    n = int(sys.argv[1]) if len(sys.argv) > 1 else 100_000
    text = block(n)
    yaml = HEAD + "".join(f"    {line}\n" for line in text.splitlines())
    print(f"first rule, with ANTLR's import: {seconds(lambda: parse_rules(block(1))):.3f} s")
    print(f"parse {n} rules: {seconds(lambda: parse_rules(text)):.2f} s")
    source = StreamSource(io.BytesIO(yaml.encode()))
    print(f"YAML with {n} rules to the Policy IR: {seconds(lambda: read_policies([source])):.2f} s")


if __name__ == "__main__":
    main()
