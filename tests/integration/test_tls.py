"""TLS on all three services, for clients and for agents, with certificates made here."""

import asyncio
import json
import signal
import ssl
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from agent.llama_loaded_model import EngineOutlet
from balancer.access_files import AccessFileRefused
from balancer.app import Balancer
from balancer.tls import read_tls
from shared.settings_sources import Address
from tests.support.agent_states import state
from tests.support.certificates import OPENSSL, Certificate, self_signed
from tests.support.linked_agent import text
from tests.support.raw_http import AnswerBroken, RawConnection
from tests.support.running_agent import running_agent
from tests.support.running_balancer import BalancerProcess, running_balancer
from tests.support.scripted_runtime import ScriptedRuntime

pytestmark = pytest.mark.skipif(OPENSSL is None, reason="needs the openssl command to make certificates")

SLOTS = 3
STATE_PATH = "/api/v1/balancer_desired_state"


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Certificate:
    return self_signed(tmp_path_factory.mktemp("tls"), "first")


@pytest.fixture(scope="module")
def other(tmp_path_factory: pytest.TempPathFactory) -> Certificate:
    return self_signed(tmp_path_factory.mktemp("tls"), "second")


def files_of(certificate: Certificate) -> dict[str, Path]:
    return {"tls_cert": certificate.cert, "tls_key": certificate.key}


async def call(
    method: str, address: Address, path: str, trusts: ssl.SSLContext, document: Any = None
) -> tuple[int, bytes]:
    async with aiohttp.ClientSession() as session:
        url = f"https://{address}{path}"
        async with session.request(method, url, ssl=trusts, json=document) as answer:
            return answer.status, await answer.read()


async def test_all_three_services_speak_tls_and_nothing_else(certificate: Certificate) -> None:
    async with running_balancer(**files_of(certificate)) as balancer:
        for address in (balancer.inference_address, balancer.compat_address, balancer.management_address):
            assert await call("GET", address, "/health", certificate.trusted()) == (200, b"OK")
            async with RawConnection.to(address) as plain:
                await plain.request("GET", "/health")
                with pytest.raises(AnswerBroken):
                    await plain.read_head()


async def test_who_does_not_trust_the_certificate_sends_nothing(certificate: Certificate, other: Certificate) -> None:
    async with running_balancer(**files_of(certificate)) as balancer:
        with pytest.raises(aiohttp.ClientConnectorCertificateError):
            await call("GET", balancer.inference_address, "/health", other.trusted())


# Agents


def scripted(outlet: EngineOutlet) -> ScriptedRuntime:
    return ScriptedRuntime(outlet, SLOTS)


async def wait_agents(balancer: Balancer, trusts: ssl.SSLContext, count: int) -> None:
    async with asyncio.timeout(30):
        while True:
            _, body = await call("GET", balancer.management_address, "/api/v1/fleet", trusts)
            agents = json.loads(body)["agents"]
            if len(agents) == count and all(agent["accepting"] for agent in agents):
                return
            await asyncio.sleep(0.02)


async def test_an_agent_joins_over_tls_and_answers_stream(certificate: Certificate) -> None:
    trusts = certificate.trusted()
    async with running_balancer(**files_of(certificate)) as balancer:
        address = balancer.management_address
        flags: dict[str, Any] = {
            "management_addr": [address],
            "management_tls": True,
            "management_ca_file": certificate.cert,
        }
        document = state("/a.gguf").model_dump(mode="json") | {"use_chat_template_override": False}
        assert (await call("PUT", address, STATE_PATH, trusts, document))[0] == 204
        async with running_agent(scripted, slots=SLOTS, **flags):
            await wait_agents(balancer, trusts, 1)
            prompt = {"raw_prompt": text([10, 20, 30]), "max_tokens": 40}
            path = "/api/v1/continue_from_raw_prompt"
            status, body = await call("POST", balancer.inference_address, path, trusts, prompt)
            lines = [json.loads(line) for line in body.splitlines()]
            assert status == 200
            assert len(lines) > 1
            assert "Done" in lines[-1]["Response"]["response"]["GeneratedToken"]


@pytest.mark.parametrize(
    ("uses_tls", "words"), [(True, "not one that this agent trusts"), (False, "this agent needs --management-tls")]
)
async def test_an_agent_that_cannot_join_says_why(
    certificate: Certificate, other: Certificate, caplog: pytest.LogCaptureFixture, uses_tls: bool, words: str
) -> None:
    async with running_balancer(**files_of(certificate)) as balancer:
        flags: dict[str, Any] = {"management_addr": [balancer.management_address]}
        if uses_tls:
            flags |= {"management_tls": True, "management_ca_file": other.cert}
        async with running_agent(scripted, slots=SLOTS, **flags):
            await wait_logged(caplog, words)


async def test_an_agent_with_tls_at_a_balancer_without_it_says_so(
    certificate: Certificate, caplog: pytest.LogCaptureFixture
) -> None:
    async with running_balancer() as balancer:
        flags: dict[str, Any] = {"management_addr": [balancer.management_address], "management_tls": True}
        async with running_agent(scripted, slots=SLOTS, **flags, management_ca_file=certificate.cert) as agent:
            await wait_logged(caplog, "does it have a --tls-cert?")
            assert not agent.task.done()


async def wait_logged(caplog: pytest.LogCaptureFixture, words: str) -> None:
    async with asyncio.timeout(20):
        while words not in caplog.text:
            await asyncio.sleep(0.01)


# The process


async def name_of(address: Address) -> bytes:
    """The certificate that a new connection gets, as DER."""
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    async with asyncio.timeout(20):
        _, writer = await asyncio.open_connection(*address, ssl=context)
        found: bytes = writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
        writer.close()
        await writer.wait_closed()
        return found


def der_of(certificate: Certificate) -> bytes:
    return ssl.PEM_cert_to_DER_cert(certificate.cert.read_text())


async def test_a_hang_up_brings_the_new_certificate_to_new_connections(
    tmp_path: Path, certificate: Certificate, other: Certificate
) -> None:
    used = Certificate(tmp_path / "cert.pem", tmp_path / "key.pem", "used")

    def put(cert: Path, key: Path) -> None:
        used.cert.write_bytes(cert.read_bytes())
        used.key.write_bytes(key.read_bytes())
        used.key.chmod(0o600)

    put(certificate.cert, certificate.key)
    async with BalancerProcess.started("--tls-cert", str(used.cert), "--tls-key", str(used.key)) as process:
        assert "with TLS" in process.log
        assert await name_of(process.compat_address) == der_of(certificate)
        async with aiohttp.ClientSession() as session:
            url = f"https://{process.compat_address}/health"
            async with session.get(url, ssl=certificate.trusted()) as answer:
                assert answer.status == 200
            put(other.cert, certificate.key)
            process.send(signal.SIGHUP)
            await process.wait_line("is not the key of the certificate")
            assert await name_of(process.compat_address) == der_of(certificate)
            put(other.cert, other.key)
            process.send(signal.SIGHUP)
            await process.wait_line("certificates were read again")
            for address in process.addresses.values():
                assert await name_of(address) == der_of(other)
        process.send(signal.SIGTERM)
        assert await process.wait_exit() == 0
    assert "Traceback" not in process.log
    assert "WARNING" not in process.log


async def test_a_certificate_that_cannot_be_used_is_one_plain_sentence(
    certificate: Certificate, other: Certificate
) -> None:
    async with BalancerProcess.launched("--tls-cert", str(certificate.cert), "--tls-key", str(other.key)) as process:
        assert await process.wait_exit() == 2, process.log
    (said,) = (line for line in process.lines if line.startswith("steersman balancer: "))
    assert f"--tls-key: {other.key} is not the key of the certificate {certificate.cert}" in said
    assert "Traceback" not in process.log


def test_each_reason_to_refuse_a_certificate_has_its_sentence(
    tmp_path: Path, certificate: Certificate, other: Certificate
) -> None:
    locked = self_signed(tmp_path, "locked", passphrase="s3cret")
    nonsense = tmp_path / "nonsense.pem"
    nonsense.write_text("nonsense")
    for cert, key, words in (
        (certificate.cert, other.key, "is not the key of the certificate"),
        (nonsense, certificate.key, "must be a certificate chain and its private key, both PEM"),
        (certificate.cert, nonsense, "must be a certificate chain and its private key, both PEM"),
        (locked.cert, locked.key, "is protected by a passphrase"),
        (tmp_path / "absent", certificate.key, "absent cannot be read"),
    ):
        with pytest.raises(AccessFileRefused) as refused:
            read_tls(cert, key)
        assert words in str(refused.value)
