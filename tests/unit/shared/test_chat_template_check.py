"""A template is compiled and nothing else: what would take for ever when evaluated is not evaluated."""

import pytest

from shared.chat_template_check import compile_fault


@pytest.mark.parametrize(
    "template",
    [
        "",
        "plain text",
        "{{ bos_token }}{% for message in messages %}{{ message.content | trim }}{% endfor %}",
        "{{ tools | tojson(indent=4) }}{% if x is defined and x is mapping %}{% endif %}",
        "{% macro turn(m) %}{{ m['role'] }}{% endmacro %}{{ turn(messages[0]) }}",
        "{{ raise_exception('no system prompt') }}{{ strftime_now('%Y') }}",
        "{% for m in messages %}{% if m.role == 'x' %}{% continue %}{% endif %}{% break %}{% endfor %}",
        "{% generation %}{{ messages[0].content }}{% endgeneration %}",
        "{% set ns = namespace(seen=false) %}{% set ns.seen = true %}",
    ],
)
def test_templates_of_the_hub_compile(template: str) -> None:
    assert compile_fault(template) is None


@pytest.mark.parametrize(
    ("template", "says"),
    [
        ("{{ broken", "end of print statement"),
        ("line\n{% if %}", "(line 2)"),
        ("{{ x | no_such_filter }}", "no_such_filter"),
        ("{{ x is no_such_test }}", "no_such_test"),
        ("{% for x in y %}", "endfor"),
        ("{% unknown %}", "unknown"),
        ("{% break %}", "loop"),
        ("{% for a in b %}" * 40 + "{% endfor %}" * 40, "nested"),
        ("{{ " + "(" * 5000 + ")" * 5000 + " }}", "nested too deeply"),
        ("{{ x" + ".a" * 5000 + " }}", "nested too deeply"),
    ],
)
def test_what_does_not_compile_is_one_sentence(template: str, says: str) -> None:
    fault = compile_fault(template)
    assert fault is not None
    assert says in fault
    assert "\n" not in fault
    assert len(fault) < 300


@pytest.mark.parametrize(
    "template",
    [
        "{{ 9**9**9 }}",
        "{% set x = 9**9**9 %}",
        "{% if 9**9**9 > 1 %}{% endif %}",
        "{{ 'x' * 10**11 }}",
        "{{ 'x' | center(10**11) }}",
        "{{ [0] * 10**11 }}",
        "{% autoescape 9**9**9 %}{% endautoescape %}",
        "{% autoescape 'x' | center(100000000000) %}{% endautoescape %}",
        "{{ -(9**9**9) ~ 'x' | center(10**11) | upper }}",
    ],
)
def test_constant_expressions_are_not_worked_out(template: str) -> None:
    assert compile_fault(template) is None
