"""The public views of the history, for SQL, notebooks and Grafana: their columns stay when tables change.

Their SQL contains only text from this file. docs/history.md lists their columns.
"""

from __future__ import annotations

# the label "" means "the source as a whole" and the segment "" means "none": in the views they are NULL
_ABOUT = "source, NULLIF(label, '') AS label"
_WINDOW = "schedule, window_name, window_start"
_WEEK = "CASE schedule WHEN 'weekly' THEN window_name END AS week"
VIEWS = {
    "v1_runs": f"""
        SELECT {_WINDOW}, window_end, source, state, started_at, finished_at, attempts, acts, rules_revision, error
        FROM runs""",
    "v1_readings": "SELECT schedule, window_start, source, state, rows, error, read_at FROM readings",
    "v1_rejected_rows": "SELECT schedule, window_start, source, reason, rows FROM quality",
    "v1_estimates": f"""
        SELECT {_WINDOW}, {_WEEK}, {_ABOUT}, NULLIF(segment, '') AS segment, metric, population, value, low, high,
               plug_in, n, positives
        FROM estimates""",
    "v1_verdicts": f"""
        SELECT id, {_WINDOW}, {_WEEK}, window_end, {_ABOUT}, rule, metric, population, outcome, reason, severity,
               threshold, value, low, high, plug_in, baseline, change, change_low, change_high, p_value, p_adjusted,
               detectable, n, windows, baseline_version, rules_revision, stored_at
        FROM verdicts WHERE "current" """,
    "v1_diagnoses": f"""
        SELECT {_WINDOW}, {_WEEK}, window_end, {_ABOUT}, state, problem, since, since_low, since_high, found, items,
               correct, claimed, extra_errors, extra_errors_low, extra_errors_high, acted, segment, cause, advice,
               reason, diagnosed_at
        FROM diagnoses""",
    "v1_incidents": f"""
        SELECT id, kind, {_ABOUT}, severity, state, opened_at, opened_window, "window" AS last_window, reason,
               acknowledged_at, acknowledged_by, silenced_until, silenced_by, resolved_at, resolved_window, resolved_by,
               reopened
        FROM incidents""",
    "v1_incident_events": 'SELECT incident, at, kind, reason, actor, "window" AS window_name FROM incident_events',
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
