"""What the images promise: nobody is root, no compiler stays, and no host but those of the distribution is named."""

import re

import pytest

from deploy.generate_env import FOLDER

NAMES = ("agent", "balancer")


def stages(name: str) -> list[str]:
    text = (FOLDER / "container" / f"{name}.Containerfile").read_text(encoding="utf-8")
    code = "\n".join(line for line in text.splitlines() if not line.startswith("#"))
    return re.split(r"^(?=FROM )", code, flags=re.MULTILINE)[1:]


@pytest.mark.parametrize("name", NAMES)
def test_the_program_runs_as_nobody_in_particular_and_stops_in_order(name: str) -> None:
    last = stages(name)[-1]
    assert re.search(r"^USER [1-9]\d+:[1-9]\d+$", last, re.MULTILINE)
    assert re.search(r"^STOPSIGNAL SIGTERM$", last, re.MULTILINE)
    # As a list: with a shell in between the signal would not arrive.
    assert re.search(rf'^ENTRYPOINT \["/opt/steersman/bin/steersman", "{name}"\]$', last, re.MULTILINE)


@pytest.mark.parametrize("name", NAMES)
def test_what_builds_is_not_in_the_image(name: str) -> None:
    *_, build, last = stages(name)
    assert "COPY --from=build" in last
    assert "pip install" in build
    for tool in ("build-essential", "python3-venv", "pip install", "-dev"):
        assert tool not in last


@pytest.mark.parametrize("name", NAMES)
def test_pip_is_renewed_before_it_is_given_flags_that_the_distributions_one_lacks(name: str) -> None:
    (build,) = [stage for stage in stages(name) if "pip install" in stage]
    first, second = re.findall(r"/bin/pip install (.*) \\$", build, re.MULTILINE)
    assert first.endswith("-c constraints.txt pip")
    assert "--build-constraint constraints.txt" in second


def test_the_balancers_image_has_no_llama() -> None:
    assert "[agent]" not in "".join(stages("balancer"))
    assert "[agent]" in "".join(stages("agent"))


@pytest.mark.parametrize("name", NAMES)
def test_packages_come_from_where_the_host_is_set_up_to_take_them(name: str) -> None:
    text = "".join(stages(name))
    assert re.findall(r"https?://([^/\s'\"]+)", text) in ([], ["127.0.0.1:8060"])
    assert "ADD " not in text
    assert not re.search(r"--(extra-)?index-url", text)
    for image in re.findall(r"^FROM (\S+)", text, re.MULTILINE):
        assert image in ("debian:bookworm-slim", "${BUILD_IMAGE}", "${RUN_IMAGE}")
    assert "-c constraints.txt" in text
