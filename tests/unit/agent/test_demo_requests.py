"""What the demo asks cannot ramble, and what it prints reaches every service."""

import json
import shlex

from agent.demo_requests import JSON_QUESTION, JSON_SCHEMA, Addresses, commands, json_body

AT = Addresses("127.0.0.1:1", "127.0.0.1:2", "127.0.0.1:3")


def test_every_string_and_list_of_the_schema_is_bounded() -> None:
    for schema in JSON_SCHEMA["properties"].values():
        one = schema.get("items", schema)
        assert "enum" in one or one["maxLength"] <= 30, schema
        assert schema.get("type") != "array" or schema["maxItems"] <= 3
    assert JSON_SCHEMA["required"] == list(JSON_SCHEMA["properties"])


def test_the_question_goes_out_as_it_is_shown() -> None:
    body = json_body()
    assert JSON_QUESTION in body["raw_prompt"]
    assert body["grammar"]["schema"] is JSON_SCHEMA


def test_each_line_is_one_command_for_a_service_of_the_demo() -> None:
    lines = list(commands(AT, "a model", ".venv/bin/steersman"))
    words = [shlex.split(line) for line in lines]
    assert {line[0] for line in words} == {"curl", ".venv/bin/steersman"}
    assert [".venv/bin/steersman", "status", "--management-addr", AT.management] in words
    for path in (f"{AT.compat}/v1/models", f"{AT.compat}/v1/completions", f"{AT.compat}/v1/complete"):
        assert f"http://{path}" in " ".join(lines)
    bodies = [json.loads(line[line.index("-d") + 1]) for line in words if "-d" in line]
    assert [body.get("model") for body in bodies] == [None, None, "a model", "a model"]
