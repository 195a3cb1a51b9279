"""One thread for the linear algebra of NumPy and SciPy: a second one mostly waits, but uses a whole processor."""

from __future__ import annotations

from collections.abc import MutableMapping

ANY_NUMBER = "OMP_NUM_THREADS"
LIBRARIES = ("OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")


def one_thread(environ: MutableMapping[str, str]) -> None:
    """Set the libraries' variables, which are read when NumPy is imported; a variable that is set stays.

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
