"""The files that ``calmon init`` writes: an alerts.yaml for one source, and the address of its warehouse. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import yaml

RULES = """\
# A rule fires where the value is beyond the threshold AND that is statistically significant (docs/configuration.md)
rules:
  # Overconfident: mean score minus accuracy, in the rows that act alone.
  - {id: automated-shortfall, metric: shortfall, where: automated, condition: above, threshold: 0.05, min_samples: 30, schedule: weekly, severity: critical, actions: [slack, disable_automation]}
  # All labels together, in the rows in which a label was given: seen where each label by itself has too few rows.
  - {id: source-ece, metric: ece, where: predicted, scope: source, condition: above, threshold: 0.05, schedule: weekly, severity: critical, actions: [slack]}
  # Calibration of a label got worse than in its baseline (pinned with: calmon baseline pin).
  - {id: ece-increase, metric: ece, condition: increase, threshold: 0.02, schedule: weekly, severity: warning, actions: [slack]}
  # The scores are distributed differently. Not wrong in itself: it explains what the others say.
  - {id: score-shift, test: ks, column: score, threshold: 0.1, schedule: weekly, severity: info, actions: [slack]}
"""  # noqa: E501 - a rule a line, as in the shipped file

REST = """\
automation:
  when_not_evaluated: keep        # or disable, which stops automation in every quiet week
  dry_run: true                   # decisions are made and shown, and nothing is switched. Remove it when you trust them
# routes:                         # where alerts go; without routes nothing is sent (docs/alerts.md)
#   - {channel: "#ml-monitoring", repeat: 1w}
"""


def starter_config(name: str, relation: str, settings: Mapping[str, Any], timezone: str) -> str:
    """alerts.yaml with one source; it loads as it is.

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
    head = {"version": 1, "timezone": timezone}
    parts = [
        "# What is watched, and what is an alert. Every key: docs/configuration.md. Check it with: calmon check\n",
        yaml.safe_dump(head, sort_keys=False),
        yaml.safe_dump(source, sort_keys=False, allow_unicode=True, width=10_000),
        "\n",
        RULES,
        "\n",
        REST,
    ]
    return "".join(parts)


def starter_environment(address: str) -> str:
    """.env with the address of the warehouse, quoted for a shell."""
    quoted = "'" + address.replace("'", "'\\''") + "'"
    return (
        "# Load it with: set -a; . ./.env; set +a    All variables: docs/configuration.md, .env.example\n"
        f"CALMON_WAREHOUSE_URL={quoted}\n"
    )
