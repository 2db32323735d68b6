"""Do constrained requests get what they ask for, and what do constraints cost?"""

from grafana.dashboard import dashboard
from grafana.panels import Json, Look, Query, Text, below, graph, stat
from grafana.queries import agent_rate, fleet_quantile, fleet_rate, or_nothing, own_rate, ratio

UID = "steersman-structured-output"
_SMALL = (6, 5)
_HALF = (12, 8)
_THIRD = (8, 8)
_IDLE = "no constraints"


def board() -> Json:
    """Four shares, then where they come from."""
    panels = [_refused(), _cached(), _forced(), _cost(), _results(), _failures(), _compile(), _mask(), _guessed()]
    question = "Do constrained requests get what they ask for, and what do constraints cost?"
    return dashboard(UID, "Steersman / Structured output", question, panels)


def _of_all_constraints(result: str) -> str:
    every = fleet_rate("constraints_total")
    return ratio(or_nothing(fleet_rate("constraints_total", matchers=f'result="{result}"'), every), every)


def _refused() -> Json:
    text = Text(
        "Constraints that were refused",
        "0 %. The client got 400 and a sentence.",
        "somebody's schema or grammar is wrong or too large: the sentence is in the answer, the kind below. After an "
        "upgrade: docs/structured-output.md says what is enforced.",
    )
    look = Look("percentunit", below(0.05, 0.25), _SMALL, decimals=1, empty=_IDLE)
    return stat(text, look, Query(_of_all_constraints("refused")))


def _cached() -> Json:
    text = Text(
        "Constraints that were compiled before",
        "above 90 % where clients send the same few schemas.",
        "each request brings a schema of its own (an id, a date in it?), or more different ones than the cache keeps.",
    )
    return stat(text, Look("percentunit", size=_SMALL, decimals=0, empty=_IDLE), Query(_of_all_constraints("cached")))


def _forced() -> Json:
    text = Text(
        "Generated tokens that the constraint forced",
        "the more the faster: they need no step of their own.",
        "0 % with JSON schemas: keys are optional or free, nothing follows from what is there.",
    )
    whole = fleet_rate("generated_tokens_total")
    return stat(
        text,
        Look("percentunit", size=_SMALL, decimals=0, empty=_IDLE),
        Query(ratio(fleet_rate("forced_tokens_total"), whole)),
    )


def _cost() -> Json:
    text = Text(
        "Engine time that goes into masks",
        "under 5 %: constraints are then free.",
        "a grammar with very large alternatives: *Time to compute a mask* below shows it; find the request by its log "
        "line.",
    )
    masks = fleet_rate("constraint_mask_seconds_sum")
    return stat(
        text,
        Look("percentunit", below(0.05, 0.2), _SMALL, decimals=1, empty=_IDLE),
        Query(ratio(masks, fleet_rate("engine_step_seconds_sum"))),
    )


def _results() -> Json:
    text = Text(
        "Constraints per second: compiled, cached, refused",
        "mostly cached, after the first minutes.",
        "compiled stays level with requests: nothing is used twice. Refused rises: see the reasons beside this.",
    )
    look = Look("ops", stacked=True, size=_HALF, empty=_IDLE)
    return graph(text, look, Query(fleet_rate("constraints_total", "result"), "{{result}}"))


def _failures() -> Json:
    text = Text(
        "Requests ended by their grammar per second, by reason",
        "nothing.",
        "`grammar_syntax`, `grammar_initialization`: the client's grammar, the answer says where. "
        "`grammar_rejected_output`: the model was driven where nothing may follow; please report it with the grammar.",
    )
    ended = own_rate("requests_total", "failure", matchers='failure=~"grammar_.+"')
    return graph(
        text, Look("reqps", stacked=True, bars=True, size=_HALF, empty="none did"), Query(f"{ended} > 0", "{{failure}}")
    )


def _compile() -> Json:
    text = Text(
        "Time to compile a constraint",
        "tens of milliseconds; it runs beside the engine and delays only its own request.",
        "seconds: a schema with thousands of alternatives. Compiling is bounded, so it ends in a refusal at worst.",
    )
    histogram = "constraint_compile_seconds"
    return graph(
        text,
        Look("s", below(0.5, 2), _THIRD, empty=_IDLE),
        Query(fleet_quantile(0.5, histogram), "half within"),
        Query(fleet_quantile(0.95, histogram), "95 of 100 within"),
        Query(fleet_quantile(0.99, histogram), "99 of 100 within"),
    )


def _mask() -> Json:
    text = Text(
        "Time to compute a mask, and its mean by agent",
        "well under a millisecond; every other request in the batch waits for it.",
        "one agent differs: its host. All: a grammar that is hard to follow; the compile time usually shows it too.",
    )
    histogram = "constraint_mask_seconds"
    return graph(
        text,
        Look("s", below(0.002, 0.01), _THIRD, empty=_IDLE),
        Query(fleet_quantile(0.5, histogram), "half within"),
        Query(fleet_quantile(0.99, histogram), "99 of 100 within"),
        Query(
            ratio(agent_rate(histogram + "_sum"), agent_rate(histogram + "_count")),
            "mean of {{agent}}",
        ),
    )


def _guessed() -> Json:
    text = Text(
        "Tokens guessed ahead per second: right, wrong",
        "mostly right; a right one saves a step. None where many answers run at once.",
        "mostly wrong: answers do not repeat anything. It costs little, since guesses then become rare; "
        "`--draft-tokens 0` ends them.",
    )
    look = Look("ops", stacked=True, size=_THIRD, empty=_IDLE)
    return graph(text, look, Query(fleet_rate("draft_tokens_total", "result"), "{{result}}"))
