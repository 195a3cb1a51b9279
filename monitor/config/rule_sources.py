"""Which rules can say something about which sources, and which may change the switch of a label."""

from __future__ import annotations

from monitor.config.model import OF_BANDS, Config, Rule, SourceConfig
from monitor.core.records import SCORE_BAND, Schedule
from monitor.metrics.names import ACCUMULATES, EXPECTED, MOVED_BY_TRUTHS, can_give


def can_judge(rule: Rule, source: SourceConfig) -> bool:
    """Whether a source has what the rule is about: its metric, its segments, and rows without a truth.

    >>> tickets = SourceConfig(relation="t", score_is="probability_of_label", segments=("channel",))
    >>> rule = Rule(id="x", metric="overconfidence", threshold=0.02, scope="segments", segments=("channel",))
    >>> can_judge(rule, tickets), can_judge(rule, tickets.model_copy(update={"segments": ()}))
    (True, False)
    """
    if rule.metric in EXPECTED and not source.unresolved:
        return False
    # shift tests are of scores and labels
    gives = source.kind != "regression" if rule.metric is None else can_give(source.kind, rule.metric)
    return gives and (rule.scope != "segments" or bool(segment_columns(rule, source)))


def beside_wrong_truths(rule: Rule, source: SourceConfig) -> Rule:
    """The rule with the threshold that wrong truths alone do not pass, in the share that the source states.

    A change needs none: truths were as wrong before.

    >>> tickets = SourceConfig(relation="t", score_is="probability_of_label", truth_error=0.05)
    >>> beside_wrong_truths(Rule(id="x", metric="ece", threshold=0.08), tickets).threshold
    0.13
    >>> beside_wrong_truths(Rule(id="x", metric="accuracy", condition="below", threshold=0.9), tickets).threshold
    0.85
    """
    if not source.truth_error or rule.compares or rule.metric not in MOVED_BY_TRUTHS:
        return rule
    falls = rule.condition == "below" or (rule.condition == "accumulated" and ACCUMULATES[rule.metric] == "below")
    moved = rule.threshold + (-source.truth_error if falls else source.truth_error)
    return rule.model_copy(update={"threshold": round(moved, 9)})


def rules_on(config: Config, schedule: Schedule, source: str, label: str | None) -> list[Rule]:
    """The rules of a schedule on a label, with the thresholds that the wrong truths of its source leave."""
    settings = config.sources.get(source)
    critical = settings is not None and settings.is_critical(label)
    mine = [rule for rule in config.rules_for(schedule) if rule.applies_to(source, label, critical=critical)]
    return mine if settings is None else [beside_wrong_truths(rule, settings) for rule in mine]


def segment_columns(rule: Rule, source: SourceConfig) -> tuple[str, ...]:
    """The columns of a source whose segments a rule judges; empty where it names none of them.

    >>> tickets = SourceConfig(relation="t", score_is="probability_of_label", segments=("channel", "language"))
    >>> every = Rule(id="x", metric="overconfidence", threshold=0.02, scope="segments", segments=("all",))
    >>> segment_columns(every, tickets)
    ('channel', 'language', 'score_band')
    """
    if source.kind == "regression":
        return ()
    # in a band scores are alike: how well they separate, or how many items are found, has no meaning there
    known = (*source.segments, SCORE_BAND) if rule.measure in OF_BANDS else source.segments
    return known if "all" in rule.segments else tuple(column for column in known if column in rule.segments)


def acting_rules(config: Config, source: str, label: str | None) -> tuple[Rule, ...]:
    """The rules of every schedule that may turn off a label or block its scores (None: the source's own switch)."""
    settings = config.sources.get(source)
    if settings is None:
        return ()
    critical = settings.is_critical(label)
    return tuple(
        rule
        for rule in config.rules
        if rule.acts and rule.applies_to(source, label, critical=critical) and can_judge(rule, settings)
    )
