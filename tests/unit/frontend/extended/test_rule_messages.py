# SPDX-License-Identifier: Apache-2.0
"""An error in a rule block is reported at its exact characters; `«»` mark them here."""

import io

import pytest

from policyc.compiler.frontend.cluster.services import Service
from policyc.compiler.frontend.extended import (
    codes as codes_extended,
)
from policyc.compiler.frontend.extended import (
    codes_intents,
)
from policyc.compiler.frontend.read import read_policies
from policyc.compiler.frontend.read_intents import read_intents
from policyc.compiler.frontend.yaml.sources import StreamSource
from policyc.ir.diagnostics import Code, Diagnostic
from policyc.ir.errors import InputError

HEAD = """\
apiVersion: policyc.dev/v1alpha1
kind: ExtendedPolicy
metadata: {name: p, namespace: shop}
spec:
"""
FIELDS = {"tier": "tier: 5", "appliesTo": "appliesTo: all", "rules": "rules: 'ingress:'"}


def policy(**given: str) -> str:
    """The text of an object; a field given as empty is left out."""
    return HEAD + "".join(f"  {text}\n" for text in (FIELDS | given).values() if text)


def marked(text: str) -> tuple[str, list[tuple[int, int, int]]]:
    """The text without marks, and the marked range: (line, column, end column)."""
    found = []
    for number, line in enumerate(text.split("\n"), start=1):
        start = line.find("«") + 1
        if start:
            length = line.index("»") - start
            found.append((number, start, start + max(1, length)))
    return text.replace("«", "").replace("»", ""), found


def findings(text: str, services: tuple[Service, ...] = ()) -> list[Diagnostic]:
    """The findings about a file of policies."""
    source = StreamSource(io.BytesIO(text.encode()), "p.yaml")
    try:
        return list(read_policies([source], services=services).findings)
    except InputError as wrong:
        return list(wrong.findings)


def in_ingress(rule: str) -> str:
    return policy(rules=f"rules: |\n    ingress:\n      {rule}")


OF_RULES = [
    ("allow tcp/80 «form» any", codes_extended.SYNTAX, "did you mean `from`?"),
    ("«alow» tcp/80", codes_extended.SYNTAX, "did you mean `allow`?"),
    ("«Allow» tcp/80", codes_extended.SYNTAX, "did you mean `allow`?"),
    ("allow «80»", codes_extended.SYNTAX, "name the protocol: tcp/80"),
    ("allow from any «tcp/80»", codes_extended.SYNTAX, "write services directly after"),
    ("allow from «kube-system/dns»", codes_extended.SYNTAX, "`service kube-system/dns`"),
    ("allow from «world»", codes_extended.SYNTAX, "`entity world`"),
    ("allow from pod.a == «web»", codes_extended.SYNTAX, 'put it in quotes: "web"'),
    ('allow from pod.a == "x" «and» all', codes_extended.SYNTAX, "`and` is `&&`"),
    ("allow from pod.a «=» 'x'", codes_extended.STRAY, "equality is `==`"),
    ('allow from pod.a == «"»x', codes_extended.STRAY, "does not end on its line"),
    ("allow from " + "(" * 49 + "«(»" + "all", codes_extended.TOO_DEEP, "several rules"),
    ("allow from «pdo».app exists", codes_extended.UNKNOWN_ATTRIBUTE, "did you mean `pod`?"),
    ("allow from «namespace».x exists", codes_extended.UNKNOWN_ATTRIBUTE, "ns.x"),
    ("allow from pod.«-a» exists", codes_extended.KEY_INVALID, ""),
    ("allow from pod[«'a/b/c'»] exists", codes_extended.KEY_INVALID, ""),
    ("allow from «pod.» exists", codes_extended.KEY_INVALID, ""),
    ("allow from pod.a in {'x', «'y z'»}", codes_extended.VALUE_INVALID, ""),
    ("allow from namespace == «'A'»", codes_extended.VALUE_INVALID, ""),
    ("allow from serviceaccount != «''»", codes_extended.VALUE_INVALID, ""),
    ("allow from pod.a starts with «''»", codes_extended.TEXT_EMPTY, "`exists`"),
    ("allow from node «pod.a» exists", codes_extended.NOT_OF_NODES, "node.zone"),
    ("allow from node node.a exists && «serviceaccount» == 'x'", codes_extended.NOT_OF_NODES, ""),
    ("allow «tpc»/80", codes_extended.UNKNOWN_PROTOCOL, "did you mean `tcp`?"),
    ("allow «icmp»/8", codes_extended.UNKNOWN_PROTOCOL, "`icmp TYPE`"),
    ("allow tcp/«a_b»", codes_extended.PORT_INVALID, "tcp/any"),
    ("allow «tcp/»", codes_extended.PORT_INVALID, "tcp/any"),
    ("allow udp/«80-70»", codes_extended.RANGE_BACKWARDS, "swap the two"),
    ("allow tcp/«0»", codes_extended.NUMBER_OUT, ""),
    ("allow tcp/1-«70000»", codes_extended.NUMBER_OUT, ""),
    ("allow tcp/«080»", codes_extended.NUMBER_OUT, "without leading zeros: 80"),
    ("allow tcp/«" + "9" * 30 + "»", codes_extended.NUMBER_OUT, ""),
    ("allow icmp «256»", codes_extended.NUMBER_OUT, ""),
    ("allow icmp 3 code «256»", codes_extended.NUMBER_OUT, ""),
    ("allow protocol «256»", codes_extended.NUMBER_OUT, ""),
    ("allow any limit «0»/s", codes_extended.NUMBER_OUT, ""),
    ("allow any limit 1/s burst «0»", codes_extended.NUMBER_OUT, ""),
    ("allow icmp «echo-requst»", codes_extended.UNKNOWN_ICMP, "did you mean `echo-request`?"),
    (
        "allow icmp «echo»",
        codes_extended.UNKNOWN_ICMP,
        "did you mean `echo-reply` or `echo-request`?",
    ),
    ("allow tcp/80 log «from» any", codes_extended.SYNTAX, "before words such as `as`"),
    ("allow tcp/80 limit 5/s «from» any", codes_extended.SYNTAX, "before words such as `as`"),
    ("allow tcp/80«:»90", codes_extended.SYNTAX, "a range of ports has a dash"),
    ("allow from pod.a == «“»x”", codes_extended.STRAY, "straight quotes"),
    ("allow«\u00a0»tcp/80", codes_extended.STRAY, "write a plain space"),
    ("allow «\u200b»tcp/80", codes_extended.STRAY, "remove it"),
    ("allow any\n        «form» any", codes_extended.SYNTAX, "did you mean `from`?"),
    ("allow any\n        «becuase» 'x'", codes_extended.SYNTAX, "# why"),
    ("allow any from any «because» 'x'", codes_extended.SYNTAX, "# why"),
    ("allow any log «because» 'x'", codes_extended.SYNTAX, "# why"),
    ("allow icmpv6 «redirct»", codes_extended.UNKNOWN_ICMP, "did you mean `redirect`?"),
    ("allow icmpv6 «source-quench»", codes_extended.UNKNOWN_ICMP, "IPv4's ICMP only"),
    ("allow icmp «packet-too-big» code 0", codes_extended.UNKNOWN_ICMP, "icmpv6 packet-too-big"),
    ("allow from «10.0.0.1/8»", codes_extended.ADDRESS_INVALID, "the network is 10.0.0.0/8"),
    ("allow from «10.0.0.0/33»", codes_extended.ADDRESS_INVALID, ""),
    ("allow from «10.0.0.256»", codes_extended.ADDRESS_INVALID, ""),
    ("allow from any, «fe80::g»", codes_extended.SYNTAX, ""),
    ("allow from «010.0.0.0/8»", codes_extended.ADDRESS_INVALID, "the network is 10.0.0.0/8"),
    ("allow from «::ffff:10.0.0.1»", codes_extended.ADDRESS_INVALID, ""),
    ("allow from 10.0.0.0/8 except «10.0.0.0/8»", codes_extended.EXCEPT_OUTSIDE, "a proper subset"),
    ("allow from 10.0.0.0/8 except {10.1.0.0/16, «11.0.0.0/8»}", codes_extended.EXCEPT_OUTSIDE, ""),
    ("allow from 10.0.0.0/8 except «::1»", codes_extended.EXCEPT_FAMILY, ""),
    ("allow from entity «wrld»", codes_extended.UNKNOWN_ENTITY, "did you mean `world`?"),
    ("allow from entity «world» with node == 'n'", codes_extended.WITH_OF_OTHERS, "entity host"),
    ("allow from entity «wrld» with node == 'n'", codes_extended.UNKNOWN_ENTITY, "`world`"),
    ("allow from entity host with «pod.a» exists", codes_extended.NOT_OF_NODES, "node.zone"),
    ("allow from entity world in «10.0.0.1/8»", codes_extended.ADDRESS_INVALID, "10.0.0.0/8"),
    ("allow from all in «'10.0.0.0/8'»", codes_extended.SYNTAX, ""),
    ("allow any except tcp/«0»", codes_extended.NUMBER_OUT, ""),
    ("allow from any to «10.0.0.1/8»", codes_extended.ADDRESS_INVALID, "10.0.0.0/8"),
    ("allow from service «shop/dns»", codes_extended.UNKNOWN_SERVICE, "--cluster"),
    ("allow from 10.0.0.0/8 except 10.1.0.0/16, «10.2.0.0/16»", codes_extended.EXCEPT_LIST, "{"),
    ("allow from «app» == 'x'", codes_extended.SYNTAX, "pod.app"),
    ("allow from ns «==» 'x'", codes_extended.SYNTAX, "`namespace`"),
    ("allow tcp «80»", codes_extended.SYNTAX, "tcp/80"),
    ("allow tcp«:»80", codes_extended.SYNTAX, "tcp/80"),
    ("allow «http»", codes_extended.SYNTAX, "tcp/http"),
    ("allow «ping»", codes_extended.SYNTAX, "`icmp echo-request`"),
    ("«drop» any", codes_extended.SYNTAX, "`deny`"),
    ("allow from «'10.0.0.1'»", codes_extended.SYNTAX, "without quotes: 10.0.0.1"),
    ("allow from pod.a == 'x', «'y'»", codes_extended.SYNTAX, "in {"),
    ("allow from pod.a in «(»'x')", codes_extended.SYNTAX, "braces"),
    ("allow from pod.a in {«}»", codes_extended.SYNTAX, "at least one value"),
    ("allow any limit «100»", codes_extended.SYNTAX, ""),
    ("allow from node«»", codes_extended.SYNTAX, ""),
    ("pass\n    ingress«»", codes_extended.SYNTAX, "`ingress:`"),
    ("allow any «to» any", codes_extended.WRONG_SIDE, "`from`"),
    ("allow any log «log»", codes_extended.MODIFIER_TWICE, "keep one"),
    ("deny any «limit» 1/s", codes_extended.LIMIT_NOT_ALLOW, ""),
    ("allow any limit «10/m»", codes_extended.RATE_INVALID, "limit 100/s"),
    ("allow any as «''»", codes_extended.NAME_INVALID, ""),
    ("allow any as «'" + "x" * 101 + "'»", codes_extended.NAME_INVALID, ""),
    ("allow any as «'\u200b'»", codes_extended.NAME_INVALID, ""),
    ("log any «log»", codes_extended.USELESS_MODIFIER, ""),
    ("pass\n    «ingress»:", codes_extended.SECTION_TWICE, "together"),
]
OF_FIELDS = [
    (
        policy(rules="rules: |\n    «allow» any\n    ingress:"),
        codes_extended.NO_SECTION,
        "ingress:",
    ),
    (policy(rules="rules: «'# nothing'»"), codes_extended.NO_RULES, "ingress:"),
    (policy(rules=""), codes_extended.REQUIRED, "rules: |"),
    (policy(tier=""), codes_extended.REQUIRED, "1000000"),
    (policy(appliesTo=""), codes_extended.REQUIRED, "appliesTo: all"),
    (policy(tier="tier: «1000»"), codes_extended.TIER_BUILT_IN, "(999)"),
    (policy(tier="tier: «1000000»"), codes_extended.TIER_BUILT_IN, "(1000001)"),
    (policy(tier="tier: «10000000»"), codes_extended.TIER_BUILT_IN, ""),
    (policy(tier="tier: «-1»"), codes_extended.TIER_NEGATIVE, ""),
    (policy(appliesTo="appliesTo: pod.a == «'b c'»"), codes_extended.VALUE_INVALID, ""),
    (policy(appliesTo="appliesTo: «''»"), codes_extended.SYNTAX, ""),
    (
        policy(appliesTo="appliesTo: all && «namespace» in {'a', 'b'}"),
        codes_extended.OTHER_NAMESPACE,
        "",
    ),
]
OF_INTENTS = [
    ("never any ingress «egress»", codes_intents.TWO_SCOPES, "both ends"),
    ("never any as 'x'\n«never» any as 'x'", codes_intents.NAME_TWICE, "own name"),
    ("never any\n  «becuase» 'x'", codes_extended.SYNTAX, "did you mean `because`?"),
    ("nver any", codes_extended.SYNTAX, "did you mean `never`?"),
    ("only from any«»", codes_extended.SYNTAX, ""),
    ("never any from service «a/b»", codes_extended.UNKNOWN_SERVICE, "--cluster"),
    ("never any including «builtins»", codes_extended.SYNTAX, "did you mean `builtin`?"),
    ("# nothing", codes_intents.NO_INTENTS, ""),
]


def check(
    said: list[Diagnostic], code: Code, hint: str, places: list[tuple[int, int, int]]
) -> None:
    assert [finding.code for finding in said] == [code.name], said
    assert hint in said[0].hint
    span = said[0].span
    if places:
        assert [(span.line, span.column, span.end_column)] == places


@pytest.mark.parametrize(("rule", "code", "hint"), OF_RULES, ids=[rule for rule, *_ in OF_RULES])
def test_an_error_in_a_rule_has_its_position(rule: str, code: Code, hint: str) -> None:
    text, places = marked(in_ingress(rule))
    said = findings(text)
    if "fe80::g" in rule:
        said = said[:1]
        places = [(9, 29, 30)]
    check(said, code, hint, places)


@pytest.mark.parametrize(("text", "code", "hint"), OF_FIELDS)
def test_an_error_in_a_field_has_its_position(text: str, code: Code, hint: str) -> None:
    text, places = marked(text)
    check(findings(text), code, hint, places)


@pytest.mark.parametrize(("text", "code", "hint"), OF_INTENTS)
def test_an_error_in_an_intent_has_its_position(text: str, code: Code, hint: str) -> None:
    text, places = marked(text)
    with pytest.raises(InputError) as wrong:
        read_intents([StreamSource(io.BytesIO(text.encode()), "x.intent")])
    check(list(wrong.value.findings), code, hint, places)


def test_every_code_has_a_case() -> None:
    said = {code.name for _, code, _ in (*OF_RULES, *OF_FIELDS, *OF_INTENTS)}
    declared = {
        value.name
        for module in (codes_extended, codes_intents)
        for value in vars(module).values()
        if isinstance(value, Code)
    }
    assert declared - said == {codes_intents.SERVICE_WITHOUT_PODS.name}  # test_intents.py


WORDS = [
    ("allow any limit 100", "expected a rate such as 100/s, found `100`"),
    ("allow from service x", "expected a Service as NAMESPACE/NAME, found `x`"),
    ("allow from node", "expected an expression over nodes, or a test of the node's name, found"),
    ("allow from entity", "expected one of `world`, `cluster`, `host`, `remote-node`, found"),
    ("allow\u00a0any", "unexpected U+00A0"),
    ("allow from pod.a", 'expected a test such as == "web", found the end of the line'),
    (
        "allow any x",
        "expected `,`, `as`, `except`, `from`, `limit`, `log`, `to` or the end of the line, found",
    ),
]


@pytest.mark.parametrize(("rule", "message"), WORDS)
def test_expected_tokens_are_described(rule: str, message: str) -> None:
    (finding,) = findings(in_ingress(rule))
    assert finding.message.startswith(message)


def test_a_peer_after_except_may_add_addresses() -> None:
    assert not findings(in_ingress("allow from 10.0.0.0/8 except 10.1.0.0/16, 10.1.2.0/24"))
    assert not findings(in_ingress("allow from 10.0.0.0/8 except 10.1.0.0/16, 11.0.0.0/8"))


def test_several_errors_are_reported_at_once_and_in_order() -> None:
    text = in_ingress(
        "allow tcp/0, udp/0\n      deny form any\n      allow from entity x\n    egres:"
    )
    assert [(f.span.line, f.code) for f in findings(text)] == [
        (9, "PC1412"),
        (9, "PC1412"),
        (10, "PC1401"),
        (11, "PC1416"),
        (12, "PC1401"),
    ]


def test_a_misspelt_section_is_one_mistake() -> None:
    text = policy(rules="rules: |\n    ingres:\n      allow any\n")
    assert [f.code for f in findings(text)] == ["PC1401"]
