"""Mistakes of one source that types cannot show: keys that do not fit its kind, and unknown columns."""

from __future__ import annotations

from typing import get_args

from monitor.config.entries import GIVEN, NO, Found, Misfit, Written, misfits, repeated
from monitor.config.model import ScoreMethod
from monitor.config.problems import meant
from monitor.core.records import SCORE_BAND

_OF_ROWS = (
    "item", "label", "score", "actual", "resolved_at",
    "predicted", "predicted_at", "model_version", "cluster", "weight",
)  # fmt: skip
_OF_NUMBERS = (
    "item", "predicted", "deviation", "actual", "resolved_at",
    "label", "predicted_at", "model_version", "weight",
)  # fmt: skip
_OF_SINGLE_LABELS = (
    "item", "predicted_label", "confidence", "true_label", "resolved_at",
    "actual", "predicted_at", "model_version", "cluster", "weight",
)  # fmt: skip
_OF_WIDE_TABLES = (
    "item", "resolved_at", "true_label", "predicted_label", "predicted_at", "model_version", "cluster", "weight",
)  # fmt: skip
_VOTE_METHODS = tuple(method for method in get_args(ScoreMethod) if method.startswith("vote_"))
_OTHER_METHODS = tuple(method for method in get_args(ScoreMethod) if not method.startswith("vote_"))
_NOT_OF_REGRESSION = (
    "score_is", "score", "segments", "features", "automate_at", "truth_error", "labels", "costs",
    "score_scale", "positive", "negative", "latest_by", "agreement_by", "truth", "wide", "unresolved",
)  # fmt: skip

_OF_SOURCES: tuple[Misfit, ...] = (
    *(
        Misfit(
            "regression", f"{key}:", GIVEN,
            "{key} is about labels and scores, and a source of kind regression has numbers", NO, "CAL033",
        )
        for key in _NOT_OF_REGRESSION
    ),
    Misfit(
        "ranked", "score_is", ("confidence_in_prediction",),
        "kind {kind} compares the scores of an item's labels, so each must be that of its label",
        "score_is: probability_of_label", "CAL033",
    ),
    Misfit(
        "multiclass", "agreement_by:", GIVEN,
        "of an item of kind multiclass exactly one label is true, and annotators may differ",
        "kind: top_k, or no agreement_by", "CAL033",
    ),
    Misfit(
        "single_label", "score_is", ("probability_of_label",),
        "kind single_label has the confidence in the predicted label, and no score of any other label",
        "no score_is", "CAL033",
    ),
    Misfit(
        "single_label", "wide:", GIVEN,
        "kind single_label has one label an item, and wide tables have a column for each",
        "kind: multiclass, or no wide", "CAL033",
    ),
    *(
        Misfit(
            "single_label by name", f"{key}:", GIVEN,
            "{key} says which words of actual mean yes or no, and this source has true_label",
            "no {key}, or columns: {{actual: ...}}", "CAL033",
        )
        for key in ("positive", "negative")
    ),
    Misfit(
        "without positive", "negative:", GIVEN,
        "negative says which words mean no, and nothing says which mean yes",
        "positive: [yes, true] beside it", "CAL033",
    ),
    *(
        Misfit(
            "made", f"{key}:", GIVEN,
            "{key} is about columns of scores, and the scores of this source are made", "no {key}, or no score",
            "CAL033",
        )
        for key in ("score_scale", "wide")
    ),
    Misfit(
        "without names of labels", "wide.score", ("{label}",),
        "every column would be a label's score", "labels: [phishing, billing] beside it", "CAL020",
    ),
    Misfit(
        "any", "segments", (SCORE_BAND,),
        f"{SCORE_BAND} is the name of the bands of scores, and a column cannot have it as well",
        f"no {SCORE_BAND}; a column of this name under another one, from a view", "CAL020",
    ),
    Misfit(
        "made of votes", "score.method", _OTHER_METHODS,
        "{score_method} is not made from {score_from}", f"one of {', '.join(_VOTE_METHODS)}", "CAL019",
    ),
    Misfit(
        "made of logprobs", "score.method", _VOTE_METHODS,
        "{score_method} is not made from {score_from}", f"one of {', '.join(_OTHER_METHODS)}", "CAL019",
    ),
)  # fmt: skip


def of_source(source: Written) -> Found:
    """The mistakes of one source."""
    kind, held = source["kind"], source["score.from"]
    kinds = {
        "any": True,
        "regression": kind == "regression",
        "ranked": kind in ("multiclass", "top_k"),
        "multiclass": kind == "multiclass",
        "single_label": kind == "single_label",
        "single_label by name": kind == "single_label" and source["columns.actual"] is None,
        "without positive": source["positive"] is None,
        "made": source["score"] is not None,
        "made of votes": held == "votes",
        "made of logprobs": held in ("token_logprobs", "label_logprobs"),
        "without names of labels": not source["wide.labels"],
    }
    facts = {"score_method": source["score.method"], "score_from": held}
    yield from misfits(source, [name for name, has in kinds.items() if has], _OF_SOURCES, facts)
    yield from _columns(source)
    for key in ("segments", "features"):
        yield from repeated(source.document, source.at(key))


def _columns(source: Written) -> Found:
    known = tuple(dict.fromkeys((*_canonical(source), *source.texts("segments"), *source.texts("features"))))
    for path, theirs in source.document.named(*source.at("columns")):
        ours = str(path[-1])
        if ours in known:
            continue
        turned = isinstance(theirs, str) and theirs in known
        remedy = f"{theirs}: {ours} (ours first, then theirs)" if turned else meant(ours, known, f"{{}}: {theirs}")
        yield source.document.problem("CAL030", path, f"unknown column {ours!r}", remedy, at_key=True)


def _canonical(source: Written) -> tuple[str, ...]:
    if source["kind"] == "regression":
        return _OF_NUMBERS
    if source["wide"] is not None:
        return _OF_WIDE_TABLES
    single = source["kind"] == "single_label"
    names = _OF_SINGLE_LABELS if single else (*_OF_ROWS, "true_label", "predicted_label")
    made = source["score.from"]
    return tuple(made if name in ("score", "confidence") and isinstance(made, str) else name for name in names)
