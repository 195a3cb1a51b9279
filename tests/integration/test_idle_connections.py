"""However many connections ask nothing, an operator's "off" over HTTP gets through at once."""

from __future__ import annotations

import resource
import socket
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from time import monotonic
from urllib.parse import urlsplit

import pytest

from monitor.service.connections import protocol
from tests.fakes.service import Running, make_place, running

IDLE = 1_100
BOUND_S = 5.0  # it takes some 0.05 s on a quiet machine
HALF = b"POST /v1/automation/tickets/disable HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Half: "


@contextmanager
def files(soft: int) -> Iterator[None]:
    """This process may have so many open files meanwhile, where the machine lets it."""
    before, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < soft:
        pytest.skip(f"this machine allows {hard} open files")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, before), hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (before, hard))


def flood(service: Running, held: ExitStack, count: int, said: bytes = b"") -> list[socket.socket]:
    address = urlsplit(service.url)
    found = []
    for _ in range(count):
        one = held.enter_context(closing(socket.create_connection((address.hostname, address.port), timeout=10)))
        if said:
            one.sendall(said)
        found.append(one)
    return found


@pytest.mark.parametrize("said", [b"", HALF], ids=["silent", "half a request"])
def test_1100_idle_connections_do_not_keep_an_operator_from_turning_off(tmp_path: Path, said: bytes) -> None:
    with files(4096), running(make_place(tmp_path)) as service, ExitStack() as held:
        # what a container or an old machine allows; the service cannot raise it
        resource.prlimit(service.process.pid, resource.RLIMIT_NOFILE, (1024, 1024))
        flood(service, held, IDLE, said)
        began = monotonic()
        with service.client("stopper") as client:
            answer = client.post("/v1/automation/tickets/billing/disable", json={"reason": "it answers nonsense"})
        assert (answer.status_code, answer.json()["state"]) == (200, "off")
        assert monotonic() - began < BOUND_S
        assert service.process.exitcode is None
        assert "Too many open files" not in service.output()


def test_a_connection_that_asks_is_never_closed_for_another(tmp_path: Path) -> None:
    with files(4096), running(make_place(tmp_path)) as service, ExitStack() as held, service.client("boss") as client:
        assert client.get("/v1/automation").status_code == 200
        (slow,) = flood(service, held, 1, HALF + b"\r\nContent-Type: application/json\r\nContent-Length: 20\r\n\r\n")
        flood(service, held, 450)
        slow.sendall(b'{"reason": "x"}     ')
        assert slow.recv(12) == b"HTTP/1.1 401"
        assert client.get("/v1/automation").status_code == 200  # its own was closed meanwhile: it opens another


def test_a_silent_connection_and_half_a_head_end_after_their_time() -> None:
    import asyncio

    import uvicorn
    from starlette.responses import PlainTextResponse

    async def talk() -> list[float]:
        config = uvicorn.Config(
            PlainTextResponse("yes"), http=protocol(head_seconds=0.5), ws="none", lifespan="off", log_config=None
        )
        server = uvicorn.Server(config)
        with socket.create_server(("127.0.0.1", 0)) as listener:
            serving = asyncio.create_task(server.serve(sockets=[listener]))
            found = []
            for first in (b"", b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"):  # also behind a request that was answered
                reader, writer = await asyncio.open_connection("127.0.0.1", listener.getsockname()[1])
                if first:
                    writer.write(first)
                    assert (await reader.readuntil(b"yes")).startswith(b"HTTP/1.1 200")
                writer.write(b"GET / HT")
                began = monotonic()
                with pytest.raises((asyncio.IncompleteReadError, ConnectionResetError)):
                    await asyncio.wait_for(reader.readexactly(1), 10)
                found.append(monotonic() - began)
                writer.close()
            server.should_exit = True
            await serving
        return found

    taken = asyncio.run(talk())
    assert all(0.3 < seconds < 5 for seconds in taken), taken
