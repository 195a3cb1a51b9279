"""The heartbeat: an address that is called after each success, so that another service notices when calls stop.

As for healthchecks.io and similar services, a success calls the address itself, a failure the address with ``/fail``
appended. A call that does not get through is logged and never fails the run that it reports.
"""

from __future__ import annotations

import http.client
import logging
import urllib.error
import urllib.request
from urllib.parse import urlsplit, urlunsplit

from pydantic import SecretStr

from monitor.core.redaction import without_secrets

log = logging.getLogger(__name__)

TIME_LIMIT_S = 10.0
BODY_BYTES = 10_000


def beat(address: SecretStr | None, *, failed: str | None = None, time_limit_s: float = TIME_LIMIT_S) -> bool:
    """Report a success, or the reason why it ``failed``; True if the call was accepted.

    The address is a secret (whoever has it can keep the alarm quiet) and is in no log line.

    >>> beat(None)
    False
    """
    if address is None:
        return False
    parts = urlsplit(address.get_secret_value())
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
        log.warning("the heartbeat was not taken: %s", _plain(error))
    else:
        return True
    return False


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """Treats a redirect as a refusal: it would send the secret to another address."""

    def redirect_request(self, *_: object) -> None:
        return None


_OPENER = urllib.request.build_opener(_NoRedirect)


def _plain(error: Exception) -> str:
    reason = getattr(error, "reason", error)
    return f"{type(reason).__name__}: {reason.strerror}" if isinstance(reason, OSError) else type(reason).__name__
