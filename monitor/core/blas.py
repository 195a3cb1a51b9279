"""One thread for the linear algebra behind NumPy and SciPy: a second one only waits, at a processor's full cost."""

from __future__ import annotations

from collections.abc import MutableMapping

ANY_NUMBER = "OMP_NUM_THREADS"
LIBRARIES = ("OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")


def one_thread(environ: MutableMapping[str, str]) -> None:
    """Sets what the libraries look at, once, when NumPy is imported; what is set already stays.

    Sums over 10,001 cells are just long enough to be shared out. On two busy cores judging a week of 20 labels took
    25.8 s of a processor with two threads, 4.6 s with one. Their last digits would depend on the number of cores, too.

    >>> environ = {"MKL_NUM_THREADS": "4"}
    >>> one_thread(environ)
    >>> environ
    {'MKL_NUM_THREADS': '4', 'OPENBLAS_NUM_THREADS': '1'}
    """
    if ANY_NUMBER not in environ:
        environ.update({name: "1" for name in LIBRARIES if name not in environ})
