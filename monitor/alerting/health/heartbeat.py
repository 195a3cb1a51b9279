"""The heartbeat: an address that is called after each success, so that another service notices when calls stop.

As for healthchecks.io and similar services, a success calls the address itself, a failure the address with ``/fail``
appended. A call that does not get through is logged and never fails the run that it reports. An address may have
``{schedule}`` and ``{source}`` in it: then each has its own.
"""

from __future__ import annotations

import http.client
import logging
import re
import urllib.error
import urllib.request
from collections.abc import Mapping
from urllib.parse import quote, urlsplit, urlunsplit

from pydantic import SecretStr

from monitor.core.redaction import without_secrets

log = logging.getLogger(__name__)

TIME_LIMIT_S = 10.0
BODY_BYTES = 10_000


def beat_run(address: SecretStr | None, schedule: str, failed: Mapping[str, str | None]) -> None:
    """Report a run: by source, why it ``failed`` (None: at least one of its rules was judged).

    One address for all sources reports a success where any of them was judged, or there was none to judge.
    """
    if address is not None and "{source}" in address.get_secret_value():
        for source, why in failed.items():
            beat(address, failed=why, schedule=schedule, source=source)
        return
    reasons = [f"{source}: {why}" for source, why in failed.items() if why is not None]
    beat(address, failed="\n".join(reasons) if reasons and len(reasons) == len(failed) else None, schedule=schedule)


def beat(
    address: SecretStr | None,
    *,
    failed: str | None = None,
    schedule: str = "monitor",
    source: str = "monitor",
    time_limit_s: float = TIME_LIMIT_S,
) -> bool:
    """Report a success, or the reason why it ``failed``; True if the call was accepted.

    ``monitor`` stands for a schedule or source that is not known. The address is a secret (whoever has it can keep the
    alarm quiet) and is in no log line.

    >>> beat(None)
    False
    """
    if address is None:
        return False
    names = {"{schedule}": schedule, "{source}": source}
    parts = urlsplit(
        re.sub(r"\{\w+\}", lambda name: quote(names.get(name[0], name[0]), safe=""), address.get_secret_value())
    )
    path = parts.path.rstrip("/") + ("/fail" if failed is not None else "")
    url = urlunsplit(parts._replace(path=path))
    body = without_secrets(failed or "").encode()[:BODY_BYTES]
    request = urllib.request.Request(url, data=body, method="POST", headers={"User-Agent": "calmon"})  # noqa: S310 - settings take http(s) only
    try:
        with _OPENER.open(request, timeout=time_limit_s) as answer:
            answer.read(1)
    except urllib.error.HTTPError as error:
        log.warning("the heartbeat was answered with %d", error.code)
    except (OSError, http.client.HTTPException, ValueError) as error:
        reason = getattr(error, "reason", error)
        why = f": {reason.strerror}" if isinstance(reason, OSError) else ""
        log.warning("the heartbeat was not taken: %s%s", type(reason).__name__, why)
    else:
        return True
    return False


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """Treats a redirect as a refusal: it would send the secret to another address."""

    def redirect_request(self, *_: object) -> None:
        return None


_OPENER = urllib.request.build_opener(_NoRedirect)
