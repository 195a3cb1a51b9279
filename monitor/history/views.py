"""The views of the history. Their SQL contains only text from this file."""

from __future__ import annotations

from collections.abc import Mapping

from monitor.history.tables import EXACT, NEITHER, ONLY_VALUE, PARTS, PLACES_OF_PART

# the label "" means "the source as a whole" and the segment "" means "none": in the public views they are NULL
_ABOUT = "source, NULLIF(label, '') AS label"
_WINDOW = "schedule, window_name, window_start"
_PUBLIC = {
    "v1_runs": f"""
        SELECT {_WINDOW}, window_end, state, started_at, finished_at, attempts, acts, rules_revision, error
        FROM runs""",
    "v1_readings": "SELECT schedule, window_start, source, state, rows, error, read_at FROM readings",
    "v1_rejected_rows": "SELECT schedule, window_start, source, reason, rows FROM quality",
    "v1_estimates": f"""
        SELECT {_WINDOW}, {_ABOUT}, NULLIF(segment, '') AS segment, metric, population, value, low, high, plug_in, n,
               positives
        FROM estimates""",
    "v1_verdicts": f"""
        SELECT id, {_WINDOW}, window_end, {_ABOUT}, rule, metric, population, outcome, reason, severity, threshold,
               value, low, high, plug_in, baseline, change, change_low, change_high, p_value, p_adjusted, detectable, n,
               windows, baseline_version, rules_revision, stored_at
        FROM verdicts WHERE "current" """,
    "v1_incidents": f"""
        SELECT id, rule, {_ABOUT}, severity, state, schedule, opened_at, opened_window, acknowledged_at,
               acknowledged_by, silenced_until, silenced_by, resolved_at, resolved_window, resolved_by, breaches,
               reopened, reason, last_verdict
        FROM incidents""",
    "v1_incident_events": "SELECT incident, at, kind, reason, actor, verdict FROM incident_events",
    "v1_switches": f"""
        SELECT {_ABOUT}, state, lease_until, hold_until, by_operator, actor, reason, verdict, changed_at, segments
        FROM switches""",
    "v1_switch_events": f"""
        SELECT id, {_ABOUT}, at, kind, from_state, to_state, lease_until, until, actor, reason, verdict, segments
        FROM switch_events""",
    "v1_baselines": f"""
        SELECT {_ABOUT}, version, "start" AS span_start, "end" AS span_end, first_window, last_window, rows, pinned_at,
               pinned_by, reason
        FROM baselines""",
    "v1_annotations": f"SELECT id, {_ABOUT}, at, text, added_at, added_by FROM annotations WHERE removed_at IS NULL",
    "v1_deliveries": """
        SELECT id, kind, operation, channel, state, attempts, created_at, sent_at, error_code
        FROM deliveries""",
}


def views(dialect: str) -> Mapping[str, str]:
    """The SELECT of each view of a dialect, in the order in which they must be created."""
    return {"estimates": _estimates(dialect), "verdicts": _verdicts(dialect), "shifts": _SHIFTS} | _PUBLIC


_SHIFTS = """
    SELECT schedule, window_start, window_name, source, label, test, "column", statistic, p_value, n, n_baseline, detail
    FROM shifted JOIN estimate_windows w ON w.id = window_id JOIN shift_series s ON s.id = series_id"""


def _verdicts(dialect: str) -> str:
    actions = "CAST(s.actions AS json) AS actions" if dialect == "postgresql" else "s.actions"
    return f"""
        SELECT j.id AS id, schedule, window_start, window_end, window_name, source, label, rule, metric, population,
               outcome, reason, severity, threshold, value, low, high, plug_in, baseline, change, change_low,
               change_high, p_value, p_adjusted, detectable, n, windows, baseline_version, rules_revision, data_digest,
               {actions}, detail, stored_at, "current", NULLIF(s.condition, '') AS condition
        FROM judged j JOIN evaluations e ON e.id = j.evaluation_id JOIN verdict_series s ON s.id = j.series_id"""


def _at(name: str) -> str:
    """SQL of a line's column at the place of a series. It selects the part first, so that it compares fewer places."""
    parts = []
    for part in range(PARTS):
        places = range(part * PLACES_OF_PART, (part + 1) * PLACES_OF_PART)
        parts.append(f"WHEN {part} THEN CASE s.place {' '.join(f'WHEN {p} THEN e.{name}_{p}' for p in places)} END")
    return f"CASE s.place / {PLACES_OF_PART} {' '.join(parts)} END"


def _of_part(name: str) -> str:
    cases = " ".join(f"WHEN {part} THEN e.{name}_{part}" for part in range(PARTS))
    return f"CASE s.place / {PLACES_OF_PART} {cases} END"


def _estimates(dialect: str) -> str:
    """Billionths are divided as floats: PostgreSQL would make a numeric of an integer."""
    kind = "double precision" if dialect == "postgresql" else "REAL"

    def number(name: str) -> str:
        return f"CASE {_at(name)} WHEN {EXACT} THEN x.{name} ELSE CAST({_at(name)} AS {kind}) END"

    value, plug_in = _at("value"), _at("plug_in")
    return f"""
        SELECT schedule, window_start, source, label, segment, metric, population, window_name,
               ({number("value")}) / 1e9 AS value,
               CASE WHEN {plug_in} IS NULL THEN ({number("value")}) / 1e9
                    WHEN {plug_in} IN ({ONLY_VALUE}, {NEITHER}) THEN NULL
                    ELSE ({number("plug_in")}) / 1e9 END AS plug_in,
               ({number("low")}) / 1e9 AS low, ({number("high")}) / 1e9 AS high,
               COALESCE(x.n, {_of_part("n")}) AS n, COALESCE(x.positives, {_of_part("positives")}) AS positives,
               COALESCE(x.detail, CASE WHEN s.detailed THEN {_of_part("detail")} END) AS detail
        FROM estimated e JOIN estimate_windows w ON w.id = e.window_id JOIN estimate_series s ON s.line = e.line
        LEFT JOIN estimate_extras x ON x.window_id = e.window_id AND x.series_id = s.id
        WHERE COALESCE({value}, {plug_in}) IS NOT NULL
    """
