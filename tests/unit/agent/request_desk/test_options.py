"""What a request asks for beyond its prompt reaches the engine, or is refused by its name."""

from agent.core.backend import LogprobsWanted
from agent.core.commands import Submit
from agent.core.request_sampling import RequestSampling
from shared.generation import FinishReason
from shared.generation_options import LogprobOptions, SamplingOptions, StopOptions
from shared.messages_from_agent import Accepted, Refused, TokenFrame
from tests.support.desk_driver import DeskDriver


async def test_options_go_to_the_engine_over_the_states_parameters(driver: DeskDriver) -> None:
    sampling = SamplingOptions(top_k=3, logit_bias={7: -1.0}, penalises_answer_only=True)
    stop = StopOptions(strings=["."], regexes=["[0-9]"])
    await driver.start(1, sampling=sampling, stop=stop, logprobs=LogprobOptions(top_count=2))
    (command,) = driver.model.commands
    assert isinstance(command, Submit)
    assert isinstance(command.sampling, RequestSampling)
    assert (command.sampling.temperature, command.sampling.top_k, command.sampling.logit_bias) == (0.5, 3, ((7, -1.0),))
    assert command.penalises_answer_only
    assert command.stops is not None
    assert [one.pattern for one in command.stops.patterns] == ["[0-9]"]
    assert command.logprobs == LogprobsWanted(top_count=2)


async def test_options_that_cannot_be_honoured_are_refused_with_their_parameter(driver: DeskDriver) -> None:
    await driver.start(1, stop=StopOptions(token_ids=[5000]))
    await driver.start(2, stop=StopOptions(regexes=["("]))
    await driver.start(3, prompt="abc", logprobs=LogprobOptions(prompt_start=3))
    refused = [message for message in driver.to(1) if isinstance(message, Refused)]
    assert [one.parameter for one in refused] == ["stop_token_ids", "stop_regex", "logprob_start_len"]
    assert driver.desk.slots_in_use == 0


async def test_an_echo_is_sent_before_anything_of_the_answer(driver: DeskDriver) -> None:
    await driver.start(1, prompt="^hello", echo=True)
    accepted, frame = driver.to(1)  # a frame for each piece of it: together they might be too large for one
    assert isinstance(accepted, Accepted)
    assert isinstance(frame, TokenFrame)
    assert [(item.token_ids, item.text) for item in frame.items] == [((), "hello")]
    await driver.start(2, prompt="^hi", echo=True, max_tokens=0, stop=StopOptions(skips_special_tokens=False))
    *_, frame, end = driver.to(1)
    assert isinstance(frame, TokenFrame)
    assert [item.text for item in frame.items] == ["^hi"]
    assert isinstance(end, TokenFrame)
    assert end.ends[0].finish_reason is FinishReason.LENGTH


async def test_a_prompt_is_read_without_special_tokens_where_asked(driver: DeskDriver) -> None:
    await driver.start(1, parses_special=False)
    assert driver.model.reader.parsed_special is False
