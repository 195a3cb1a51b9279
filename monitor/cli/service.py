"""``calmon dashboard``: the HTTP service; ``calmon automation token``: its tokens."""

from __future__ import annotations

import logging
import os
import signal
import socket
import threading
from typing import Annotated
from urllib.parse import urlsplit

import typer
import uvicorn

from monitor.alerting.slack.links import links_of
from monitor.cli import common as cli
from monitor.cli.automation import automation_app
from monitor.config.settings import Settings
from monitor.service.access import Guard, TrustedProxy, is_loopback
from monitor.service.app import create_app
from monitor.service.backend import Service
from monitor.service.connections import MOST_IDLE, protocol, raise_file_limit
from monitor.service.tokens import SCOPES, TokensBroken, TokensFile

GRACE_S = 5
KEEP_ALIVE_S = 65
WORKER = "AnyIO worker thread"
"""The name of the threads in which pages are made."""
_NO_FILE = "CALMON_API_TOKENS_FILE is not set; set it to the path of the tokens file"


@cli.app.command(
    epilog="Examples:  calmon dashboard  ·  calmon dashboard --port 9000  ·  "
    "CALMON_API_TOKENS_FILE=tokens calmon dashboard --host 0.0.0.0"
)
def dashboard(
    host: Annotated[str, typer.Option(help="Where to listen; another address than this machine needs tokens.")] = (
        "127.0.0.1"
    ),
    port: Annotated[int, typer.Option(min=0, max=65535, help="The port; 0 takes a free one.")] = 8080,
    access_log: Annotated[bool, typer.Option(help="A line on standard error for every request.")] = True,
) -> None:
    """Pages for people, and the switch over HTTP for routers and operators. Ends with Ctrl-C."""
    settings = cli.settings()
    guard = Guard(_tokens(settings, host), is_loopback(host), _proxy(settings))
    service = Service(settings)
    try:
        _serve(service, guard, settings, listening(host, port), access_log=access_log)
    finally:
        service.close()


def _proxy(settings: Settings) -> TrustedProxy | None:
    """The proxy that names the person who signed in. Raises UsageError where its requests cannot be recognised."""
    if settings.proxy_user_header is None:
        return None
    if settings.public_url is None:
        raise cli.UsageError("CALMON_PROXY_USER_HEADER needs CALMON_PUBLIC_URL: it counts for that host only")
    return TrustedProxy(settings.proxy_user_header, urlsplit(settings.public_url).netloc)


def _tokens(settings: Settings, host: str) -> TokensFile | None:
    """The tokens file; it must be valid at the start, and exist where other machines can reach the service."""
    if settings.api_tokens_file is None:
        if not is_loopback(host):
            raise cli.UsageError(
                f"--host {host} lets other machines in, and there are no tokens: set CALMON_API_TOKENS_FILE "
                "(`calmon automation token` makes its lines), or listen on 127.0.0.1"
            )
        return None
    file = TokensFile(settings.api_tokens_file)
    try:
        entries, warning = file.entries(), file.warning()
    except (TokensBroken, OSError) as error:
        raise cli.UsageError(f"CALMON_API_TOKENS_FILE: {error}") from error
    if warning:
        cli.warn(f"warning: {warning}", style="yellow")
    if not entries:
        cli.warn("warning: the tokens file has no token: every request is refused", style="yellow")
    return file


def listening(host: str, port: int) -> socket.socket:
    """A socket that listens there. Raises typer.Exit, after a plain error, where the port is taken."""
    try:
        family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        both = family == socket.AF_INET6
        return socket.create_server(address[:2], family=family, backlog=128, dualstack_ipv6=both)
    except OSError as error:
        why = str(error.strerror).partition(" (while")[0]
        what = f"cannot listen on {host}, port {port}: {why}"
        raise cli.fail(f"{what}; choose another --port (0: a free one), or another --host") from error


def _serve(service: Service, guard: Guard, settings: Settings, listener: socket.socket, *, access_log: bool) -> None:
    docs = links_of(settings).page("http")
    logging.getLogger("monitor.http").setLevel(logging.INFO if access_log else logging.WARNING)
    idle = min(MOST_IDLE, raise_file_limit() // 2)
    server = uvicorn.Server(
        uvicorn.Config(
            create_app(service, guard, docs=docs),
            http=protocol(most_idle=idle),
            ws="none",
            lifespan="off",
            log_config=None,
            access_log=False,  # ours leaves out the query, and hides what looks like a token
            server_header=False,
            proxy_headers=False,
            timeout_keep_alive=KEEP_ALIVE_S,
            timeout_graceful_shutdown=GRACE_S,
        )
    )
    for number in (signal.SIGTERM, signal.SIGINT):
        # also in the moment before uvicorn takes over, and when it raises the signal again at the end
        signal.signal(number, server.handle_exit)
    host, port = listener.getsockname()[:2]
    typer.echo(f"calmon listens on http://{f'[{host}]' if ':' in host else host}:{port}")
    server.run(sockets=[listener])
    if any(thread.name == WORKER for thread in threading.enumerate()):
        # a page waits for the warehouse, for up to its time limit; who ends the service would kill it before that
        logging.shutdown()
        os._exit(0)


@automation_app.command(
    "token",
    epilog="Examples:  calmon automation token --name router --scope read  ·  "
    "calmon automation token --name on-call --scope read --scope disable",
)
def token_command(
    name: Annotated[str, typer.Option(help="Who it is for; stored with every change made with it.")],
    scope: Annotated[
        list[str], typer.Option(help="read, disable, enable or annotate; once for each. None includes another.")
    ],
) -> None:
    """Make a token for the HTTP service: printed once, its hash added to CALMON_API_TOKENS_FILE."""
    path = cli.settings().api_tokens_file
    if path is None:
        raise cli.UsageError(_NO_FILE)
    scopes = frozenset(known for known in SCOPES if known in scope)
    if set(scope) - scopes:
        raise cli.UsageError(f"--scope is one of {', '.join(SCOPES)}")
    try:
        token = TokensFile(path).add(name, scopes)
    except (ValueError, TokensBroken) as error:
        raise cli.UsageError(str(error)) from error
    typer.echo(token)
    cli.warn(f"added to {path}; the token is not kept anywhere: note it now")
