"""Log-probabilities as OpenAI's and as SGLang's clients read them."""

from balancer.logprob_shapes import OpenAiLogprobs, meta_info
from shared.logprobs import LogprobEntry, LogprobPlace

A = LogprobEntry(1, -0.5, b"a")
SMILE = "🙂".encode()
PLACES = (
    LogprobPlace(LogprobEntry(0, None, b"<s>")),
    LogprobPlace(A, (A, LogprobEntry(2, -1.5, b"b")), (LogprobEntry(9, -7.0, b"i"),)),
    LogprobPlace(LogprobEntry(3, -2.0, SMILE[:2]), (LogprobEntry(4, float("-inf"), b"c"),)),
    LogprobPlace(LogprobEntry(5, -2.5, SMILE[2:]), (LogprobEntry(6, -1.0, b"d"), LogprobEntry(7, -3.0, b"d"))),
)


def test_openais_object() -> None:
    assert OpenAiLogprobs(2).shape(PLACES) == {
        "text_offset": [0, 3, 4, 4],
        "token_logprobs": [None, -0.5, -2.0, -2.5],
        "tokens": ["<s>", "a", SMILE[:2].decode("latin-1"), SMILE[2:].decode("latin-1")],
        "top_logprobs": [None, {"a": -0.5, "b": -1.5}, {"c": -9999.0}, {"d": -1.0}],
    }


def test_openais_object_in_pieces_goes_on_where_it_was() -> None:
    shape = OpenAiLogprobs(0)
    assert shape.shape(PLACES[:2])["text_offset"] == [0, 3]
    later = shape.shape(PLACES[2:])
    assert (later["text_offset"], later["top_logprobs"]) == ([4, 4], [])


def test_sglangs_six_lists() -> None:
    found = meta_info(PLACES[:2], PLACES[1:2], top_count=1, with_text=True)
    assert found == {
        "input_token_logprobs": [[None, 0, "<s>"], [-0.5, 1, "a"]],
        "output_token_logprobs": [[-0.5, 1, "a"]],
        "input_top_logprobs": [None, [[-0.5, 1, "a"]]],
        "output_top_logprobs": [[[-0.5, 1, "a"]]],
        "input_token_ids_logprobs": [None, [[-7.0, 9, "i"]]],
        "output_token_ids_logprobs": [[[-7.0, 9, "i"]]],
    }


def test_without_text_the_third_is_null() -> None:
    assert meta_info((), PLACES[1:2], top_count=0, with_text=False)["output_token_logprobs"] == [[-0.5, 1, None]]
