"""Is the fleet healthy, and if not, what is wrong?"""

from grafana.dashboard import dashboard
from grafana.panels import (
    BLUE,
    GREEN,
    ORANGE,
    RED,
    Json,
    Look,
    Query,
    Text,
    at_least,
    below,
    graph,
    only_for,
    stat,
    timeline,
    value_words,
)
from grafana.queries import SELECTION, not_client_faults, or_nothing, own_now, own_quantile, own_rate, ratio, series

UID = "steersman-fleet"
_SMALL = (4, 5)
_BUSY = 'state="processing"'


def board() -> Json:
    """Six values that say whether to worry, then the alerts, then the three curves one looks at first."""
    panels = [_unreachable(), _ready(), _waiting(), _failing(), _first_token(), _wanted_state()]
    panels += [_alerts(), _slots(), _outcomes(), _agents()]
    return dashboard(UID, "Steersman / Fleet", "Is the fleet healthy, and if not, what is wrong?", panels)


def _unreachable() -> Json:
    text = Text(
        "Scrape targets that do not answer",
        "0.",
        "a balancer (or agent) is down or its network is: what else stands here is then old or missing. On its host: "
        "`systemctl status steersman-balancer`, then its journal.",
    )
    up = f"up{{{SELECTION}}}"
    return stat(text, Look("none", below(1, 1), _SMALL, empty="nothing is scraped"), Query(f"count({up}) - sum({up})"))


def _ready() -> Json:
    text = Text(
        "Slots that serve, busy or free",
        "as many as all your agents have together, all the time.",
        "0 is an outage: every request waits, then fails. `GET /ready` says why; `steersman status` names each agent's "
        "issue. A dip of some seconds is a change of model, agent by agent.",
    )
    look = Look("none", at_least(1), _SMALL, link="steersman-agents", empty="no balancer")
    return stat(text, look, Query(_slots_that_serve("min")))


def _slots_that_serve(of_balancers: str) -> str:
    """A balancer counts as busy only what it has taken itself, and as free what nobody has."""
    free = series("slots", 'state="free"')
    return f"{own_now('slots', matchers=_BUSY)} + sum({of_balancers} by (job) ({free}))"


def _waiting() -> Json:
    text = Text(
        "Requests waiting for a slot",
        "0 most of the time, a few for a moment.",
        "the fleet is smaller than what is asked of it, or agents are missing. At `--max-buffered-requests` (30 unless "
        "set) the next request gets 503. Bring back agents, add some, or let clients slow down.",
    )
    return stat(
        text,
        Look("none", below(10, 25), _SMALL, link="steersman-requests", empty="no balancer"),
        Query(own_now("queue_depth")),
    )


def _failing() -> Json:
    text = Text(
        "Requests that the fleet failed or turned away",
        "0 %. What clients did wrong does not count here.",
        "Requests / *Requests without an answer* names the reason: `buffer_full` and `waited_too_long` mean too little "
        "room, `agent_lost` and `engine_failed` mean sick agents.",
    )
    every = own_rate("requests_total")
    part = or_nothing(own_rate("requests_total", matchers=not_client_faults()), every)
    look = Look("percentunit", below(0.01, 0.05), _SMALL, decimals=1, link="steersman-requests")
    return stat(text, look, Query(ratio(part, every)))


def _first_token() -> Json:
    text = Text(
        "First token comes within (95 of 100 requests)",
        "under a second for short prompts; the alert allows 2.5 s.",
        "Requests shows whether the time goes into waiting for a slot (too few slots) or after it (long prompts, slow "
        "steps: see Agents / *Time of an engine step*).",
    )
    look = Look("s", below(1, 2.5), _SMALL, link="steersman-requests")
    return stat(text, look, Query(own_quantile(0.95, "time_to_first_token_seconds")))


def _wanted_state() -> Json:
    text = Text(
        "Wanted state not served everywhere, for",
        "0 s, and minutes while a new model is fetched and loaded. Redis, where it is used: there.",
        "an agent cannot load what is wanted: `steersman status` says which and why; the old model serves on. Redis "
        "away: requests go on, but the state cannot be changed.",
    )
    words = value_words({0: ("AWAY", RED), 1: ("there", GREEN)})
    redis = only_for("Redis", unit="none", mappings=[words], thresholds=_steps(at_least(1)))
    return stat(
        text,
        Look("s", below(120, 900), _SMALL, decimals=0, link="steersman-agents", empty="no balancer"),
        Query(f"max({series('desired_state_lag_seconds')})", "lag"),
        Query(f"min({series('redis_up')})", "Redis"),
        overrides=[redis],
    )


def _alerts() -> Json:
    text = Text(
        "What is wrong, and since when",
        "empty. Orange: it looks wrong, not long enough yet to wake anybody. Red: it fires.",
        "read the bars from the top: docs/grafana.md has a section for each name, with what to do.",
    )
    severity = f'sum by (alertname, instance) (ALERTS{{alertstate="STATE", {SELECTION}, alertname=~"Steersman.+"}})'
    pending, firing = (severity.replace("STATE", state) for state in ("pending", "firing"))
    words = value_words({1: ("pending", ORANGE), 2: ("FIRING", RED)})
    look = Look("none", ((None, GREEN), (1, ORANGE), (2, RED)), (24, 7), empty="nothing is wrong")
    return timeline(
        text, look, [words], Query(f"2 * ({firing} > bool 0) or ({pending} > bool 0)", "{{alertname}} {{instance}}")
    )


def _slots() -> Json:
    text = Text(
        "Slots busy and free, and requests waiting",
        "busy stays under all there are, and nobody waits for long.",
        "all busy and waiting above 0 for minutes: too little fleet. All fall: agents are lost or exchange "
        "their model. Waiting with slots free: a balancer sees other agents than its neighbour.",
    )
    return graph(
        text,
        Look("none", empty="no balancer"),
        Query(own_now("slots", matchers=_BUSY), "busy"),
        Query(_slots_that_serve("max"), "all that serve"),
        Query(own_now("queue_depth"), "waiting"),
        overrides=[_coloured("busy", BLUE), _coloured("all that serve", GREEN), _coloured("waiting", RED)],
    )


def _outcomes() -> Json:
    text = Text(
        "Requests ended per second, by outcome",
        "nearly all answered.",
        "cancelled: clients left, mostly because they waited too long. refused: nobody took it. failed: it began and "
        "broke. Requests names the reasons.",
    )
    return graph(
        text,
        Look("reqps", stacked=True, link="steersman-requests"),
        Query(own_rate("requests_total", "outcome"), "{{outcome}}"),
        overrides=[
            _coloured("answered", GREEN),
            _coloured("cancelled", BLUE),
            _coloured("refused", ORANGE),
            _coloured("failed", RED),
        ],
    )


def _agents() -> Json:
    text = Text(
        "Agents by state",
        "all serving; one at a time loads while the wanted state changes.",
        "`steersman status` says what an agent with issues lacks; hanging: its engine stands still, restart it. Fewer "
        "agents than hosts: look at the agent's journal there. Ups and downs: a process that dies and is started "
        "again.",
    )
    by_state = f"sum by (state) (max without (instance) ({series('agents')}))"
    colours = {
        "serving": GREEN,
        "loading": BLUE,
        "idle": "gray",
        "draining": "purple",
        "issues": ORANGE,
        "hanging": RED,
    }
    return graph(
        text,
        Look("none", stacked=True, link="steersman-agents", empty="no balancer"),
        Query(by_state, "{{state}}"),
        overrides=[_coloured(state, colour) for state, colour in colours.items()],
    )


def _coloured(name: str, colour: str) -> Json:
    return only_for(name, color={"fixedColor": colour, "mode": "fixed"})


def _steps(steps: tuple[tuple[float | None, str], ...]) -> Json:
    return {"mode": "absolute", "steps": [{"color": colour, "value": value} for value, colour in steps]}
