"""The keys file: its lines, its bounds, and what is never repeated of it."""

from pathlib import Path

import pytest

from balancer.access_files import AccessFileRefused
from balancer.key_ring import MAX_KEY_BYTES, MAX_KEYS, KeyRing, parse_keys, read_keys


def test_each_line_is_a_name_and_a_key() -> None:
    content = b"# staff\n\nalice:s3cret\r\n  bob.b@x_-1:sk-a:b/c+=\n"
    assert parse_keys(content) == [("alice", b"s3cret"), ("bob.b@x_-1", b"sk-a:b/c+=")]


def test_one_name_may_have_an_old_and_a_new_key() -> None:
    ring = KeyRing(parse_keys(b"alice:old\nalice:new\n"))
    assert [ring.name_of(key) for key in (b"old", b"new", b"older")] == ["alice", "alice", None]


@pytest.mark.parametrize("shown", [b"", b"s3cre", b"s3crets", b"S3cret", b"alice:s3cret", b"s3cret ", b"x" * 100_000])
def test_only_the_whole_key_is_somebodys(shown: bytes) -> None:
    ring = KeyRing([("alice", b"s3cret")])
    assert ring.name_of(b"s3cret") == "alice"
    assert ring.name_of(shown) is None


def test_a_ring_keeps_and_shows_no_key() -> None:
    ring = KeyRing([("alice", b"s3cret")])
    assert repr(ring) == "<KeyRing 1 keys>"
    assert b"s3cret" not in b"".join(ring._names)
    other = KeyRing([("alice", b"s3cret")])
    assert ring._names.keys().isdisjoint(other._names)  # under another secret


@pytest.mark.parametrize(
    "line",
    [
        b"s3cret-without-name",
        b":s3cret",
        b"alice:",
        b"alice: s3cret",
        b"alice:s3 cret",
        b"al ice:s3cret",
        b"alice:s3cret\x00",
        "alice:s3cret-\u00e9".encode(),
        b"alice:s3cret\xff",
        b"a" * 65 + b":s3cret",
        b"alice:s3cret" + b"x" * MAX_KEY_BYTES,
    ],
)
def test_a_malformed_line_is_named_by_its_number_and_not_quoted(line: bytes) -> None:
    with pytest.raises(ValueError, match=r"^line 3: must be name:key") as caught:
        parse_keys(b"# keys\nbob:fine\n" + line + b"\n")
    assert "s3cret" not in str(caught.value)


def test_the_same_key_twice_is_refused() -> None:
    with pytest.raises(ValueError, match=r"^line 3: the same key stands in line 1$"):
        parse_keys(b"alice:s3cret\nbob:other\ncarol:s3cret\n")


@pytest.mark.parametrize("content", [b"", b"\n \n", b"# alice:s3cret\n"])
def test_a_file_without_a_key_is_refused_rather_than_open_to_all(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "keys"
    path.write_bytes(content)
    path.chmod(0o600)
    with pytest.raises(AccessFileRefused, match=r"^--inference-keys-file: .*keys: holds no key"):
        read_keys(path, "--inference-keys-file")


def test_there_are_at_most_so_many_keys() -> None:
    lines = [b"n:key-%d" % number for number in range(MAX_KEYS + 1)]
    assert len(parse_keys(b"\n".join(lines[:-1]))) == MAX_KEYS
    with pytest.raises(ValueError, match="more than"):
        parse_keys(b"\n".join(lines))


def test_a_key_of_the_greatest_length_is_taken() -> None:
    assert len(parse_keys(b"n:" + b"k" * MAX_KEY_BYTES)) == 1
