"""Do the agents live, how hard do they work, and which one is different?"""

from grafana.dashboard import dashboard
from grafana.panels import Json, Look, Query, Text, below, graph, only_for
from grafana.queries import (
    agent_rate,
    fleet_now,
    fleet_quantile,
    fleet_rate,
    own_quantile,
    own_rate,
    ratio,
    series,
)

UID = "steersman-agents"
_HALF = (12, 8)


def board() -> Json:
    """First their links, then their engines, then memory and models."""
    panels = [_heartbeat(), _events(), _round_trip(), _bytes(), _step(), _batch()]
    panels += [_generated(), _cells(), _prompt_tokens(), _models()]
    question = "Do the agents live, how hard do they work, and which one is different? (by agent: with --agent-metrics)"
    return dashboard(UID, "Steersman / Agents", question, panels)


def _heartbeat() -> Json:
    text = Text(
        "Oldest sign of life of any agent, by balancer",
        "under `--heartbeat-interval` (5 s unless set).",
        "at twice the interval the agent is lost. One balancer only: the network between. All: the agent's host or its "
        "process; `steersman status` names the agent.",
    )
    age = f"max by (instance) ({series('agent_heartbeat_age_seconds')})"
    return graph(text, Look("s", below(6, 10), _HALF, empty="no agent"), Query(age, "{{instance}}"))


def _events() -> Json:
    text = Text(
        "Agents lost, models not loaded, requests set aside",
        "nothing.",
        "lost: the agent's journal, its host, the network. Not loaded: `steersman status` has the reason (file, "
        "memory). Set aside: the pool is too small for the requests that run; they pause and go on, later. A larger "
        "`context_size` or fewer slots.",
    )
    lost = f"sum(increase({series('agents_lost_total')}[$__rate_interval]))"
    return graph(
        text,
        Look("none", bars=True, size=_HALF, decimals=1, empty="no balancer"),
        Query(lost, "agents lost"),
        Query(_heard("model_loads_failed_total"), "models not loaded"),
        Query(_heard("set_aside_total"), "requests set aside"),
    )


def _heard(counter: str) -> str:
    return f"sum(max by (job) (increase({series('fleet_' + counter)}[$__rate_interval])))"


def _round_trip() -> Json:
    text = Text(
        "Round trip of the agents' links",
        "a millisecond or two in one building.",
        "it is in every token's way once. Up together with the loop's lag (Requests): the balancer is full. Alone: the "
        "network, or agents whose hosts are overloaded.",
    )
    return graph(
        text,
        Look("s", below(0.05, 0.5), _HALF, empty="no agent"),
        Query(own_quantile(0.5, "link_round_trip_seconds"), "half within"),
        Query(own_quantile(0.99, "link_round_trip_seconds"), "99 of 100 within"),
    )


def _bytes() -> Json:
    text = Text(
        "Bytes per second between balancers and agents",
        "it follows the tokens; tens of bytes for each.",
        "much sent and little received: long prompts. Much received: log-probabilities are asked for. Nothing while "
        "requests run: the links are dead, losses follow.",
    )
    return graph(
        text,
        Look("Bps", size=_HALF, empty="no balancer"),
        Query(own_rate("link_received_bytes_total"), "from agents"),
        Query(own_rate("link_sent_bytes_total"), "to agents"),
    )


def _step() -> Json:
    text = Text(
        "Time of an engine step, and steps per second",
        "steady; it is the shortest time between two tokens that an agent can do.",
        "up with long prompts: they share steps with answers (`n_batch` bounds how much). Up without: a slow host, "
        "heat, another process on the GPU. No steps while slots are busy: a hung engine.",
    )
    return graph(
        text,
        Look("s", size=_HALF),
        Query(fleet_quantile(0.5, "engine_step_seconds"), "half within"),
        Query(fleet_quantile(0.95, "engine_step_seconds"), "95 of 100 within"),
        Query(fleet_quantile(0.99, "engine_step_seconds"), "99 of 100 within"),
        Query(fleet_rate("engine_steps_total"), "steps per second"),
        overrides=[only_for("steps per second", **{"unit": "ops", "custom.axisPlacement": "right"})],
    )


def _batch() -> Json:
    text = Text(
        "Tokens per engine step",
        "about the number of busy slots while answers run, and up to `n_batch` while prompts do.",
        "always 1 with several busy slots: requests go to different agents. Always `n_batch`: prompts are all there "
        "is, answers crawl.",
    )
    mean = ratio(fleet_rate("batch_tokens_sum"), fleet_rate("batch_tokens_count"))
    return graph(
        text,
        Look("short", size=_HALF),
        Query(mean, "mean"),
        Query(fleet_quantile(0.95, "batch_tokens"), "95 of 100 at most"),
    )


def _generated() -> Json:
    text = Text(
        "Generated tokens per second, by agent",
        "equal for equal hosts.",
        "one lower than its neighbours under load: that host (heat, clock, a neighbour). One at 0 while others work: "
        "it serves nothing; its state is in `steersman status`.",
    )
    return graph(text, Look("cps", size=_HALF), Query(agent_rate("generated_tokens_total"), "{{agent}}"))


def _cells() -> Json:
    text = Text(
        "Share of the context pool that running requests hold, by agent; and cached, whole fleet",
        "running under 80 %; cached takes what is left and gives way.",
        "near 100 %: requests are set aside and everybody is slower. A larger `context_size`, or fewer slots.",
    )
    of_agent = "max by (agent) (sum by (job, instance, agent) ({}))"
    running = of_agent.format(series("agent_kv_cells", 'state="running"'))
    cached = fleet_now("kv_cells", matchers='state="cached"')
    return graph(
        text,
        Look("percentunit", below(0.8, 0.95), _HALF, empty="no model"),
        Query(ratio(running, of_agent.format(series("agent_kv_cells"))), "{{agent}} running"),
        Query(ratio(cached, f"sum({fleet_now('kv_cells', 'state')})"), "fleet cached"),
    )


def _prompt_tokens() -> Json:
    text = Text(
        "Prompt tokens per second: computed, taken from the cache, moved to host memory and back, thrown out",
        "the more is taken the better, where prompts begin alike.",
        "thrown out about as fast as computed: the pool is too small for the prompts that come again. Nothing taken: "
        "prompts differ from their first words on (a date, an id): move that to their end.",
    )
    return graph(
        text,
        Look("cps", size=_HALF),
        Query(fleet_rate("evaluated_prompt_tokens_total"), "computed"),
        Query(fleet_rate("reused_prompt_tokens_total"), "from the cache"),
        Query(fleet_rate("prefix_store_saved_tokens_total"), "put into host memory"),
        Query(fleet_rate("prefix_store_restored_tokens_total"), "brought back"),
        Query(fleet_rate("evicted_tokens_total"), "thrown out"),
    )


def _models() -> Json:
    text = Text(
        "Model on its way: bytes there, bytes in all; and time to load",
        "no bytes while nothing is fetched; else the first line climbs to the second.",
        "it stands still: the agent's network or disk; its journal has the attempts. Loads take minutes: a slow disk, "
        "or a file that does not fit into memory.",
    )
    return graph(
        text,
        Look("bytes", size=_HALF, empty="nothing is fetched"),
        Query(fleet_now("model_download_bytes", "state"), "{{state}}"),
        Query(ratio(fleet_rate("model_load_seconds_sum"), fleet_rate("model_load_seconds_count")), "time to load"),
        overrides=[only_for("time to load", **{"unit": "s", "custom.axisPlacement": "right"})],
    )
