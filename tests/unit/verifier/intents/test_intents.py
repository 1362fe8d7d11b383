# SPDX-License-Identifier: Apache-2.0
"""What becomes of intents of every kind and scope; what a witness names; what is never believed."""

from dataclasses import replace

import pytest

from policyc.ir.errors import InternalError
from policyc.ir.results.verify import IntentStatus
from policyc.ir.semantics import verdict
from policyc.ir.universe import Endpoint
from policyc.verifier.intents import intents as module
from policyc.verifier.intents.intents import (
    Asking,
    verify_intents,
)
from policyc.verifier.intents.words import describe_intent
from policyc.verifier.smt.solvers import (
    Answer,
    Decision,
    SolverAnswer,
)
from policyc.verifier.symbolic.connection import Connection
from tests.unit.verifier.intents.intent_battery import (
    DB,
    GIVEN,
    NOTHING,
    QUESTIONS,
    SQL,
    Question,
    intent,
    pods,
)


@pytest.mark.parametrize(
    "question", QUESTIONS, ids=lambda q: f"{'given' if q in GIVEN else 'any'}: {q.name}"
)
def test_each_intent_gets_the_written_answer(question: Question) -> None:
    question.check()


@pytest.mark.parametrize("question", [q for q in QUESTIONS if q.status is IntentStatus.BROKEN],
                         ids=lambda q: q.name)  # fmt: skip
def test_a_witness_has_the_verdict_of_the_semantics(question: Question) -> None:
    witness = question.answer().witness
    assert witness is not None
    ((name, said),) = witness.verdicts
    assert (name, said) == ("", verdict(question.policies, witness.flow))


def test_a_broken_never_names_the_allowing_rule_and_its_line() -> None:
    answer = Question(
        "", DB, intent("never", pods("web"), pods("db")), IntentStatus.BROKEN
    ).answer()
    (place,) = answer.responsible
    assert (str(place.span), place.path) == ("p.yaml:10:3", "spec.ingress[0]")
    assert answer.witness is not None
    src = answer.witness.flow.src
    assert isinstance(src, Endpoint) and src.labels == {"app": "web"} and src.namespace == "shop"


def test_a_broken_always_names_the_isolating_policies() -> None:
    answer = Question("", DB, intent("always", pods("x"), pods("db")), IntentStatus.BROKEN).answer()
    assert [place.words for place in answer.responsible] == ["shop/p"]


def test_a_solver_that_gives_up_proves_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    gave_up = Decision((SolverAnswer("z3", "4", Answer.UNKNOWN, "too hard"),))
    monkeypatch.setattr(module, "decide", lambda *_: gave_up)
    asked = intent("never", pods("api"), pods("db"))
    answer = Question("", DB, asked, IntentStatus.UNDECIDED, "too hard").answer()
    assert answer.status is IntentStatus.UNDECIDED
    assert "too hard" in answer.explanation


def test_each_query_has_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    limits = []
    decide = module.decide

    def noted(terms: object, choice: object, limit: object) -> Decision:
        limits.append(limit)
        return decide(terms, choice, limit)  # type: ignore[arg-type]

    monkeypatch.setattr(module, "decide", noted)
    asked = intent("never", pods("api"), pods("db"))
    _, evidence = verify_intents(Connection((DB,), (asked,)), DB, (asked,), Asking(limit_ms=9000))
    assert limits == [9000] * evidence.queries
    assert evidence.queries == 3  # something happens, nothing breaks it, something could


def test_a_universe_without_connections_is_an_internal_error(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    import z3

    monkeypatch.setattr(Connection, "is_possible", lambda _: z3.BoolVal(False))
    asked = intent("never", pods("api"), pods("db"))
    with pytest.raises(InternalError, match="no connection satisfies"):
        verify_intents(Connection((DB,), (asked,)), DB, (asked,))


def test_an_unconfirmed_witness_is_an_internal_error(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "breaks", lambda *_: False)
    asked = intent("never", pods("web"), pods("db"))
    with pytest.raises(InternalError, match="does not break"):
        verify_intents(Connection((DB,), (asked,)), DB, (asked,))


def test_the_order_of_intents_is_kept_and_each_has_a_key() -> None:
    asked = [intent("never", pods(name), pods("db"), SQL) for name in ("web", "api", "web")]
    named = [replace(each, name=f"number-{at}") for at, each in enumerate(asked)]
    answers, _ = verify_intents(Connection((DB,), named), DB, named)
    assert [a.status.value for a in answers] == ["broken", "holds", "broken"]
    assert len({answer.key for answer in answers}) == 3
    assert [answer.title for answer in answers] == ["number-0", "number-1", "number-2"]


def test_an_intent_is_described_in_words() -> None:
    shown = describe_intent(intent("only", pods("web"), pods("db"), SQL, builtin=True))
    assert shown == ("only TCP 5432 from [shop: app=web] to [shop: app=db], including builtin")
    assert describe_intent(intent("isolated", pods("a"), pods("b"))) == (
        "isolated [shop: app=b] from [shop: app=a]"
    )


def test_a_broken_intent_without_policies_names_no_rule() -> None:
    answer = Question("", NOTHING, intent("never"), IntentStatus.BROKEN).answer()
    assert answer.status is IntentStatus.BROKEN
    assert answer.responsible == ()
