"""Chunk framing; the rest needs sockets (tests/integration/raw_prompt_route)."""

from balancer.chunked_stream import frame_chunks


def test_each_document_is_a_chunk_of_its_own() -> None:
    assert frame_chunks([b'{"a":1}\n', b"x" * 17]) == b'8\r\n{"a":1}\n\r\n11\r\n' + b"x" * 17 + b"\r\n"
