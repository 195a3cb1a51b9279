"""The names of all metrics, and how rules may use them, without the code that computes them.

Every command checks alerts.yaml, and an emergency stop must not wait for NumPy. A test compares this module with the
registry.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import inf, log, sqrt
from typing import Literal

RANKS = (1, 3, 5)
"""What k may be in a metric of the k highest-scored labels of each item."""


def _at_ranks(kinds: str) -> str:
    """One name a rank: ``ece`` gives ``ece_at_1 ece_at_3 ece_at_5``."""
    return " ".join(f"{kind}_at_{k}" for k in RANKS for kind in kinds.split())


Needs = Literal["counts", "bins", "items", "ranked", "ranked_items", "rows", "regression", "unresolved"]

_NAMES: Mapping[Needs, str] = {
    "bins": ("ece mce brier_reliability brier_resolution"),
    "counts": (
        "brier nll roc_auc pr_auc accuracy overconfidence false_negative_rate ace equal_width_ece "
        "brier_uncertainty class_weighted_nll cohens_d point_biserial error_rate precision recall f1 "
        "false_positive_rate specificity balanced_accuracy balanced_error class_weighted_error prevalence "
        "matthews_correlation misclassification_cost expected_cost expected_misclassification_cost aurc e_aurc "
        "automated_accuracy share_to_people excess_errors mutual_information"
    ),
    "items": ("review_rate hamming_loss subset_loss"),
    "ranked_items": _at_ranks("ndcg"),
    "rows": (
        "class_mutual_information class_entropy score_entropy class_nll entropy_weighted_nll "
        "top1_accuracy macro_precision macro_recall "
        "macro_f1 weighted_precision weighted_recall weighted_f1 micro_f1 kappa multiclass_mcc auc_ovo "
        "auc_ovr_macro auc_ovr_weighted certainty_accuracy certain_accuracy uncertain_accuracy "
        "certainty_ratio certain_share certainty_divergence imcp_area"
    ),
    "ranked": _at_ranks("ece ace brier nll precision"),
    "regression": (
        "mse rmse mae r_squared normal_nll interval_coverage interval_coverage_50 interval_coverage_80 "
        "interval_coverage_90 interval_coverage_99"
    ),
    "unresolved": ("expected_accuracy expected_overconfidence expected_ece"),
}

NEEDS: Mapping[str, Needs] = {name: needs for needs, names in _NAMES.items() for name in names.split()}
"""Every metric, and what it needs."""

EXPECTED: frozenset[str] = frozenset(name for name, needs in NEEDS.items() if needs == "unresolved")
"""Estimates before the truth: only of one window, and only for sources with ``unresolved``."""

GIVES: Mapping[str, frozenset[Needs]] = {
    "multilabel": frozenset({"counts", "bins", "items"}),
    "multiclass": frozenset({"counts", "bins", "items", "ranked", "ranked_items", "rows"}),
    "top_k": frozenset({"counts", "bins", "items", "ranked", "ranked_items"}),
    "regression": frozenset({"regression"}),
    "single_label": frozenset({"counts", "bins", "items"}),
}
"""By kind of source, the needs of its possible metrics. All kinds except numbers have estimates before the truth."""

OF_OTHER_LABELS: frozenset[str] = frozenset(
    {
        "false_negative_rate", "recall", "f1", "false_positive_rate", "specificity", "balanced_accuracy",
        "balanced_error", "class_weighted_error", "matthews_correlation", "mutual_information",
    }
)  # fmt: skip
"""Metrics without meaning if every row has a label that was given: no label can be missed or rightly left out."""


def can_give(kind: str, metric: str) -> bool:
    """Whether a rule on this metric can be evaluated of a source of this kind.

    >>> can_give("multilabel", "recall"), can_give("single_label", "recall"), can_give("regression", "ece")
    (True, False, False)
    """
    if metric in EXPECTED:
        return kind != "regression"
    return NEEDS[metric] in GIVES[kind] and not (kind == "single_label" and metric in OF_OTHER_LABELS)


WHERE_PREDICTED: Mapping[str, float | None] = {
    "false_negative_rate": 0.0, "recall": 1.0, "false_positive_rate": 1.0, "specificity": 0.0,
    "balanced_accuracy": 0.5, "balanced_error": 0.5, "mutual_information": 0.0, "matthews_correlation": None,
}  # fmt: skip
"""Metrics with one value wherever all rows were predicted, as automated rows were too; None where it is undefined."""

WHOLE: frozenset[Needs] = frozenset({"items", "ranked", "ranked_items", "rows", "regression"})
"""Needs that only the source as a whole has, and only in the window: baselines do not store them."""

TOTALS: frozenset[str] = frozenset({"excess_errors"})
"""Metrics that grow with the number of rows: only for one window, without a baseline, which has more rows."""

ACCUMULATES: Mapping[str, Literal["above", "below"]] = {
    "overconfidence": "above", "error_rate": "above", "false_negative_rate": "above", "false_positive_rate": "above",
    "accuracy": "below", "precision": "below", "recall": "below", "specificity": "below",
    "automated_accuracy": "below",
}  # fmt: skip
"""Metrics with an exact law, and on which side of its threshold each is wrong: evidence on them may accumulate.

They are shares of right or wrong decisions, and the mean score less such a share: each row is right or not. Shares of
rows that are no decisions (prevalence, share_to_people) have no wrong side.
"""

CHANGES_ACCUMULATE: Mapping[str, Literal["above", "below"]] = {**ACCUMULATES, "ece": "above", "roc_auc": "below"}
"""Metrics of which evidence on a change may accumulate, and on which side of the baseline each is worse."""

ECES: frozenset[str] = frozenset(name for name in NEEDS if name.split("_at_")[0] in ("ece", "ace", "equal_width_ece"))
"""The metrics that are an ECE, in whatever bins and of whatever ranks."""
LEAST_ROWS_OF_ECE = 125
"""The fewest rows in which an ECE is tested: in fewer, very small p-values of it are too frequent."""

MOVED_BY_TRUTHS: frozenset[str] = ECES | EXPECTED | {
    "mce", "brier", "overconfidence", "error_rate", "accuracy", "automated_accuracy", "precision",
}  # fmt: skip
"""Metrics that wrong truths in a share of the rows move by at most that share; others by more, where little is true."""

CONTRACT = ("ece", "mce", "brier", "nll", "roc_auc", "pr_auc", "accuracy", "overconfidence", "false_negative_rate")
"""The metrics that are in every JSON document of a run."""

ALIASES: Mapping[str, str] = {
    "auc": "roc_auc",
    "auroc": "roc_auc",
    "auprc": "pr_auc",
    "average_precision": "pr_auc",
    "log_loss": "nll",
    "miss_rate": "false_negative_rate",
    "error": "error_rate",
    "true_positive_rate": "recall",
    "tpr": "recall",
    "sensitivity": "recall",
    "fpr": "false_positive_rate",
    "fnr": "false_negative_rate",
    "true_negative_rate": "specificity",
    "tnr": "specificity",
    "mcc": "matthews_correlation",
    "emc": "expected_misclassification_cost",
}
"""Names from other tools, and the names used here: what an unknown name probably means."""

_ALSO = {"shortfall": "overconfidence", "expected_shortfall": "expected_overconfidence"} | {
    name.replace("_at_", "@"): name for needs in ("ranked", "ranked_items") for name in _NAMES[needs].split()
}
ALSO_CALLED = tuple(_ALSO)
"""Second names of metrics, which alerts.yaml and the command line take for the first."""


def metric_named(name: str) -> str:
    """The metric that ``name`` means: itself, or the one that is also called so.

    >>> metric_named("shortfall"), metric_named("ece@3"), metric_named("ece")
    ('overconfidence', 'ece_at_3', 'ece')
    """
    return _ALSO.get(name, name)


_NAMES_BY_RANGE: Mapping[tuple[float, float], str] = {
    (0.0, -log(1e-15)): f"nll {_at_ranks('nll')} class_nll entropy_weighted_nll class_weighted_nll",
    (-1.0, 1.0): ("overconfidence expected_overconfidence kappa multiclass_mcc point_biserial matthews_correlation"),
    (0.0, 0.25): "brier_resolution brier_uncertainty",
    (0.0, log(2)): "mutual_information",
    (0.0, sqrt(2)): "certainty_divergence",
    (0.0, inf): (
        "score_entropy class_entropy class_mutual_information mse rmse mae misclassification_cost expected_cost "
        "expected_misclassification_cost"
    ),
    (-inf, 1.0): "r_squared",
    (-inf, inf): "normal_nll cohens_d excess_errors",
}
RANGES: Mapping[str, tuple[float, float]] = {
    name: values for values, names in _NAMES_BY_RANGE.items() for name in names.split()
}
"""The possible values, if not [0, 1]. Costs have no upper limit, since a source may set them."""


def range_of(name: str) -> tuple[float, float]:
    """The smallest and the largest value that a metric can have.

    >>> range_of("ece"), range_of("overconfidence")
    ((0.0, 1.0), (-1.0, 1.0))
    """
    return RANGES.get(name, (0.0, 1.0))
