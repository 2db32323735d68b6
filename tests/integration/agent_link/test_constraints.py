"""A constraint over the link: it is refused before `accepted`, or walked to its end."""

from shared.failures import FailureKind
from shared.generation import FinishReason
from shared.messages_from_agent import Accepted
from shared.messages_to_agent import ConstraintText, Generate
from tests.support.linked_agent import PROMPT, LinkedAgent, serving
from tests.support.scripted_backend import ScriptedVocabulary
from tests.support.scripted_balancer import ScriptedBalancer, generate
from tests.support.scripted_constraint import ConstraintScript, expected_constrained


def constrained(member: int, text: str, max_tokens: int = 50) -> Generate:
    constraint = ConstraintText(kind="gbnf", text=text)
    return generate(member, PROMPT, max_tokens).model_copy(update={"constraint": constraint})


async def test_a_constrained_answer_is_what_its_constraint_allows(
    balancer: ScriptedBalancer, agent: LinkedAgent
) -> None:
    connection = await serving(balancer)
    await connection.send(constrained(1, "9"))
    end = await connection.wait_end(1)
    prompt = ScriptedVocabulary().tokenize(PROMPT, add_special=False, parse_special=True)
    tokens, reason = expected_constrained(prompt, ConstraintScript(length=9), 50, 200)
    assert (connection.tokens_of(1), end.finish_reason) == (list(tokens), reason)
    assert reason is FinishReason.STOP


async def test_a_wrong_constraint_is_refused_before_anything_is_accepted(
    balancer: ScriptedBalancer, agent: LinkedAgent
) -> None:
    connection = await serving(balancer)
    await connection.send(constrained(1, "nine"))
    refused = await connection.wait_refused(1)
    assert (refused.kind, refused.parameter) == (FailureKind.GRAMMAR_INITIALIZATION, "grammar")
    assert not any(isinstance(message, Accepted) for message in connection.of_member(1))
    await connection.send(constrained(2, "3"))
    assert (await connection.wait_end(2)).finish_reason is FinishReason.STOP
