"""PromQL of the panels, so that every expression selects by job and instance and adds up balancers in the right way.

Two kinds of series. What a balancer did itself (requests, links, its loop) is added over balancers: `own_*`. What it
heard from its agents (`steersman_fleet_*`) every balancer of the fleet has in full, so that it is the largest over the
balancers of a job, label by label, and then the sum over jobs, a job being a fleet: `fleet_*`. What is known by agent
is the largest of whoever says it, be it several balancers or the agent itself: `agent_*`.
"""

PREFIX = "steersman_"
RANGE = "$__rate_interval"
SELECTION = 'job=~"$job", instance=~"$instance"'

# Their requests were wrong, or they left or did not read: nothing that the fleet does can help.
CLIENT_FAULTS = (
    "invalid_request",
    "model_not_found",
    "empty_prompt",
    "prompt_too_long",
    "grammar_syntax",
    "grammar_initialization",
    "grammar_incompatible_with_thinking",
    "generation_disabled",
    "slow_consumer",
)


def series(metric: str, matchers: str = "") -> str:
    """`metric` without its prefix, of the chosen jobs and instances. `matchers`: further ones, such as `le="1"`."""
    chosen = ", ".join((SELECTION, matchers) if matchers else (SELECTION,))
    return f"{PREFIX}{metric}{{{chosen}}}"


def rate(metric: str, matchers: str = "") -> str:
    """Per second, of each series."""
    return f"rate({series(metric, matchers)}[{RANGE}])"


def own_rate(metric: str, *by: str, matchers: str = "") -> str:
    """Per second, over balancers."""
    return f"{_over('sum', by)} ({rate(metric, matchers)})"


def own_now(metric: str, *by: str, matchers: str = "") -> str:
    """A gauge, over balancers."""
    return f"{_over('sum', by)} ({series(metric, matchers)})"


def fleet_rate(metric: str, *by: str, matchers: str = "") -> str:
    """Per second, of what every balancer has heard."""
    return f"{_over('sum', by)} (max without (instance) ({rate('fleet_' + metric, matchers)}))"


def fleet_now(metric: str, *by: str, matchers: str = "") -> str:
    """A gauge that every balancer has heard."""
    return f"{_over('sum', by)} (max without (instance) ({series('fleet_' + metric, matchers)}))"


def agent_rate(metric: str, matchers: str = "") -> str:
    """Per second, by agent."""
    return f"max by (agent) ({rate('agent_' + metric, matchers)})"


def own_quantile(share: float, histogram: str, *by: str) -> str:
    """Seconds (or what the histogram has) that `share` of the observations of all balancers stay within."""
    return f"histogram_quantile({share}, sum by ({_words('le', *by)}) ({rate(histogram + '_bucket')}))"


def fleet_quantile(share: float, histogram: str) -> str:
    """The same of what every balancer has heard."""
    return f"histogram_quantile({share}, {fleet_rate(histogram + '_bucket', 'le')})"


def ratio(part: str, whole: str) -> str:
    """No data, rather than a division by nothing, while there is no whole."""
    return f"{part} / ({whole} > 0)"


def or_nothing(part: str, whole: str) -> str:
    """`part`, and 0 where it has no series yet although `whole` has."""
    return f"({part} or 0 * {whole})"


def not_client_faults() -> str:
    """The matcher for failures that the fleet is to blame for."""
    return f'outcome=~"failed|refused", failure!~"{"|".join(CLIENT_FAULTS)}"'


def _over(operator: str, by: tuple[str, ...]) -> str:
    return f"{operator} by ({_words(*by)})" if by else operator


def _words(*labels: str) -> str:
    return ", ".join(labels)
