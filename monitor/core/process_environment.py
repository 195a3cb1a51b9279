"""What every process of ours sets in its environment before libraries read it."""

from __future__ import annotations

from collections.abc import MutableMapping

ANY_NUMBER = "OMP_NUM_THREADS"
LIBRARIES = ("OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")


def one_thread(environ: MutableMapping[str, str]) -> None:
    """Set the variables of NumPy's and SciPy's linear algebra, read when NumPy is imported; one that is set stays.

    A second thread mostly waits, but uses a whole processor.
    Sums over 10,001 cells are just long enough to be split among threads. On two busy cores, judging a week of 20
    labels took 25.8 s of processor time with two threads and 4.6 s with one. The last digits would also depend on the
    number of cores.

    >>> environ = {"MKL_NUM_THREADS": "4"}
    >>> one_thread(environ)
    >>> environ
    {'MKL_NUM_THREADS': '4', 'OPENBLAS_NUM_THREADS': '1'}
    """
    if ANY_NUMBER not in environ:
        environ.update({name: "1" for name in LIBRARIES if name not in environ})


LOOPBACK = ("127.0.0.1", "localhost", "::1")


def exempt_loopback(environ: MutableMapping[str, str]) -> None:
    """Keep requests to this machine away from proxies: a proxy elsewhere cannot reach a server on loopback.

    Both spellings of NO_PROXY are set, since libraries prefer one or the other.

    >>> environ = {"HTTP_PROXY": "http://proxy.example:8080", "NO_PROXY": "intranet.example"}
    >>> exempt_loopback(environ)
    >>> environ["no_proxy"]
    'intranet.example,127.0.0.1,localhost,::1'
    """
    named = [name.strip() for name in (environ.get("no_proxy") or environ.get("NO_PROXY") or "").split(",")]
    if "*" not in named:
        named = [name for name in named if name] + [name for name in LOOPBACK if name not in named]
    environ["no_proxy"] = environ["NO_PROXY"] = ",".join(named)
