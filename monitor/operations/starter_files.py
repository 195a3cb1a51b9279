"""The files that ``calmon init`` writes: an alerts.yaml for one source, and the address of its warehouse. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import yaml

EVERY_KIND = frozenset({"multilabel", "multiclass", "top_k", "single_label"})
ONE_TRUTH = frozenset({"multiclass", "top_k"})
"""Kinds of sources in which an item that one label gets wrong is missed by another one, in all rows of that."""
FITTING = "# What fits the number of rows that there are (calmon check says what can be seen with it)\n"
HEAD = """\
# A rule fires where the value is beyond the threshold AND that is statistically significant (docs/configuration.md)
rules:
"""


@dataclass(frozen=True, slots=True)
class StarterRule:
    """A proposed rule, with its purpose as a comment; ``kinds`` are the kinds of sources that get it."""

    id: str
    why: str
    rule: str
    kinds: frozenset[str] = EVERY_KIND

    def in_words(self, aside: str | None = None) -> str:
        """The rule's lines in alerts.yaml; with a reason in ``aside`` the rule is commented out."""
        reason = "" if aside is None else f"  # Not used: {aside}\n"
        return f"  # {self.why}\n{reason}  {'' if aside is None else '# '}- {{id: {self.id}, {self.rule}}}\n"


STARTER_RULES = (
    StarterRule(
        "automated-overconfidence",
        "Overconfident: mean score minus accuracy, in the rows that act alone.",
        "metric: overconfidence, where: automated, condition: above, threshold: 0.05, min_samples: 30, "
        "schedule: weekly, severity: critical, actions: [slack, disable_automation]",
    ),
    StarterRule(
        "lasting-overconfidence",
        "The same over up to a year: evidence adds up week by week, so that smaller and rarer faults are found.",
        "metric: overconfidence, where: automated, condition: accumulated, threshold: 0.02, min_samples: 30, "
        "schedule: weekly, severity: critical, actions: [slack, disable_automation]",
    ),
    StarterRule(
        "lasting-segments",
        "The same of each part of a label's rows: one channel, one language, the highest scores.",
        "metric: overconfidence, where: automated, condition: accumulated, threshold: 0.02, scope: segments, "
        "segments: all, min_samples: 30, schedule: weekly, severity: warning, actions: [slack]",
    ),
    StarterRule(
        "automated-accuracy-decrease",
        "What acts alone is right less often than in the baseline, whatever its scores claim.",
        "metric: automated_accuracy, condition: decrease, threshold: 0.03, min_samples: 30, schedule: weekly, "
        "severity: critical, actions: [slack, disable_automation]",
    ),
    StarterRule(
        "source-overconfidence",
        "The same of all labels together: seen where each label by itself has too few rows.",
        "metric: overconfidence, where: automated, scope: source, condition: above, threshold: 0.05, min_samples: 30, "
        "schedule: weekly, severity: critical, actions: [slack]",
    ),
    StarterRule(
        "source-ece",
        "All labels together, in the rows in which a label was given: scores are wrong. Needs no baseline.",
        "metric: ece, where: predicted, scope: source, condition: above, threshold: 0.05, schedule: weekly, "
        "severity: critical, actions: [slack]",
    ),
    StarterRule(
        "source-ece-increase",
        "The same rows, worse than in the baseline (pinned with: calmon baseline pin).",
        "metric: ece, where: predicted, scope: source, condition: increase, threshold: 0.02, schedule: weekly, "
        "severity: warning, actions: [slack]",
    ),
    StarterRule(
        "predicted-ece-increase",
        "Of each label the rows in which it was given: in all rows, those of other labels hide a change.",
        "metric: ece, where: predicted, condition: increase, threshold: 0.02, schedule: weekly, severity: warning, "
        "actions: [slack]",
        EVERY_KIND - {"single_label"},
    ),
    StarterRule(
        "ece-increase",
        "Calibration of a label got worse than in its baseline.",
        "metric: ece, condition: increase, threshold: 0.02, schedule: weekly, severity: warning, actions: [slack]",
        EVERY_KIND - ONE_TRUTH,
    ),
    StarterRule(
        "auc-decrease",
        "Scores separate right from wrong worse than in the baseline.",
        "metric: roc_auc, condition: decrease, threshold: 0.03, schedule: weekly, severity: warning, actions: [slack]",
        EVERY_KIND - ONE_TRUTH,
    ),
    StarterRule(
        "auc-decrease",
        "Scores separate right from wrong worse, where the label was given: elsewhere the faults of others show.",
        "metric: roc_auc, where: predicted, condition: decrease, threshold: 0.03, schedule: weekly, "
        "severity: warning, actions: [slack]",
        ONE_TRUTH,
    ),
    StarterRule(
        "lasting-ece-increase",
        "The same two over up to a year: evidence adds up week by week, so that smaller changes that last are found.",
        "metric: ece, condition: increase, evidence: accumulated, threshold: 0.02, "
        "schedule: weekly, severity: warning, actions: [slack]",
        EVERY_KIND - ONE_TRUTH,
    ),
    StarterRule(
        "lasting-auc-decrease",
        "The other of the two.",
        "metric: roc_auc, condition: decrease, evidence: accumulated, threshold: 0.03, schedule: weekly, "
        "severity: warning, actions: [slack]",
        EVERY_KIND - ONE_TRUTH,
    ),
    StarterRule(
        "score-shift",
        "The scores are distributed differently. Not wrong in itself: it explains what the others say.",
        "test: ks, column: score, threshold: 0.1, schedule: weekly, severity: info, actions: []",
    ),
)

FLOOR = StarterRule(
    "automated-accuracy-floor",
    "A service level: so many of 100 that act alone are right.",
    "metric: automated_accuracy, condition: below, threshold: {:g}, min_samples: 30, schedule: weekly, "
    "severity: critical, actions: [slack, disable_automation]",
)
"""The rule on the share that must be right, where the owner gives one."""

DAILY = StarterRule(
    "daily-overconfidence",
    "A sudden fault of the whole source: two days in a row, so that it is seen within the week.",
    "metric: overconfidence, where: automated, scope: source, condition: above, threshold: 0.08, for: 2, "
    "min_samples: 30, schedule: daily, severity: critical, actions: [slack]",
)
"""The rule of each day, where rows arrive daily."""

REST = """\
automation:
  when_not_evaluated: keep        # or disable, which stops automation in every quiet week
  dry_run: true                   # decisions are made and shown, and nothing is switched. Remove it when you trust them
"""
ROUTES = """\
{0}routes:  # where alerts go; without routes nothing is sent (docs/alerts.md)
{0}  - {{channel: {1}, repeat: 1w}}
"""


def starter_config(
    name: str,
    relation: str,
    settings: Mapping[str, Any],
    timezone: str,
    *,
    tuning: Mapping[str, Mapping[str, int]] | None = None,
    aside: Mapping[str, str] | None = None,
    must_be_right: float | None = None,
    channel: str | None = None,
    daily: bool = False,
) -> str:
    """The text of a valid alerts.yaml with one source.

    ``tuning`` holds values of the sections evaluation and baseline. ``aside`` maps rules that are commented out to the
    reason. ``must_be_right`` is the share of decisions that must be right: with it there is a rule on that floor.
    ``channel`` is where alerts go; without one the routes are commented out. ``daily``: rows arrive every day.

    >>> print(starter_config("mail", "data/*.csv", {"kind": "single_label"}, "UTC").partition("\\n# A")[0])
    # What is watched, and what is an alert. Every key: docs/configuration.md. Check it with: calmon check
    version: 1
    timezone: UTC
    sources:
      mail:
        relation: data/*.csv
        kind: single_label
    <BLANKLINE>
    """
    source = {"sources": {name: {"relation": relation, **settings}}}
    kind = settings.get("kind", "multilabel")
    floor = [] if must_be_right is None else [replace(FLOOR, rule=FLOOR.rule.format(must_be_right))]
    more = [*([DAILY] if daily else []), *floor]
    parts = [
        "# What is watched, and what is an alert. Every key: docs/configuration.md. Check it with: calmon check\n",
        yaml.safe_dump({"version": 1, "timezone": timezone}, sort_keys=False),
        yaml.safe_dump(source, sort_keys=False, allow_unicode=True, width=10_000),
        "\n",
        *([FITTING, *(f"{line}\n" for line in section_lines(tuning)), "\n"] if tuning else []),
        HEAD,
        *(rule.in_words((aside or {}).get(rule.id)) for rule in (*STARTER_RULES, *more) if kind in rule.kinds),
        "\n",
        REST,
        ROUTES.format("" if channel else "# ", json.dumps(channel or "#ml-monitoring", ensure_ascii=False)),
    ]
    return "".join(parts)


def section_lines(tuning: Mapping[str, Mapping[str, int]]) -> Iterator[str]:
    """The lines of alerts.yaml with these values of its sections."""
    for section, values in tuning.items():
        yield f"{section}: {{{', '.join(f'{key}: {value}' for key, value in values.items())}}}"


def starter_environment(address: str) -> str:
    """.env with the address of the warehouse, quoted for a shell."""
    quoted = "'" + address.replace("'", "'\\''") + "'"
    return (
        "# calmon reads this file in the folder in which it runs. All variables: docs/configuration.md\n"
        f"CALMON_WAREHOUSE_URL={quoted}\n"
    )
