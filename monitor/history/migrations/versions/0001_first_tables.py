"""The tables of the first version.

Revision ID: 0001
Revises:
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Create every table."""
    op.create_table('baselines',
    sa.Column('source', sa.Text(), nullable=False),
    sa.Column('label', sa.Text(), nullable=False),
    sa.Column('version', sa.Integer(), nullable=False),
    sa.Column('start', sa.DateTime(), nullable=False),
    sa.Column('end', sa.DateTime(), nullable=False),
    sa.Column('first_window', sa.String(length=32), nullable=False),
    sa.Column('last_window', sa.String(length=32), nullable=False),
    sa.Column('rows', sa.Integer(), nullable=False),
    sa.Column('edges', sa.JSON(), nullable=False),
    sa.Column('digest', sa.String(length=64), nullable=False),
    sa.Column('data', sa.LargeBinary(), nullable=False),
    sa.Column('pinned_at', sa.DateTime(), nullable=False),
    sa.Column('pinned_by', sa.Text(), nullable=False),
    sa.Column('reason', sa.Text(), nullable=False),
    sa.PrimaryKeyConstraint('source', 'label', 'version', name=op.f('pk_baselines'))
    )
    op.create_table('counts',
    sa.Column('schedule', sa.Text(), nullable=False),
    sa.Column('window_start', sa.DateTime(), nullable=False),
    sa.Column('source', sa.Text(), nullable=False),
    sa.Column('label', sa.Text(), nullable=False),
    sa.Column('rows', sa.Integer(), nullable=False),
    sa.Column('digest', sa.String(length=64), nullable=False),
    sa.Column('data', sa.LargeBinary(), nullable=False),
    sa.PrimaryKeyConstraint('schedule', 'window_start', 'source', 'label', name=op.f('pk_counts'))
    )
    op.create_table('deliveries',
    sa.Column('id', sa.String(length=64), nullable=False),
    sa.Column('kind', sa.String(length=32), nullable=False),
    sa.Column('channel', sa.Text(), nullable=False),
    sa.Column('payload', sa.JSON(), nullable=False),
    sa.Column('state', sa.String(length=16), nullable=False),
    sa.Column('attempts', sa.Integer(), nullable=False),
    sa.Column('created_at', sa.DateTime(), nullable=False),
    sa.Column('next_attempt_at', sa.DateTime(), nullable=False),
    sa.Column('claimed_at', sa.DateTime(), nullable=True),
    sa.Column('claimed_by', sa.Text(), nullable=True),
    sa.Column('sent_at', sa.DateTime(), nullable=True),
    sa.Column('external_channel', sa.String(length=64), nullable=True),
    sa.Column('external_id', sa.String(length=64), nullable=True),
    sa.Column('error', sa.Text(), nullable=True),
    sa.PrimaryKeyConstraint('id', name=op.f('pk_deliveries'))
    )
    op.create_index(op.f('ix_deliveries_state'), 'deliveries', ['state'], unique=False)
    op.create_table('estimates',
    sa.Column('schedule', sa.Text(), nullable=False),
    sa.Column('window_start', sa.DateTime(), nullable=False),
    sa.Column('source', sa.Text(), nullable=False),
    sa.Column('label', sa.Text(), nullable=False),
    sa.Column('segment', sa.Text(), nullable=False),
    sa.Column('metric', sa.String(length=64), nullable=False),
    sa.Column('population', sa.String(length=16), nullable=False),
    sa.Column('window_name', sa.String(length=32), nullable=False),
    sa.Column('value', sa.Float(precision=53), nullable=True),
    sa.Column('plug_in', sa.Float(precision=53), nullable=True),
    sa.Column('low', sa.Float(precision=53), nullable=True),
    sa.Column('high', sa.Float(precision=53), nullable=True),
    sa.Column('n', sa.Integer(), nullable=False),
    sa.Column('positives', sa.Float(precision=53), nullable=False),
    sa.Column('detail', sa.JSON(), nullable=False),
    sa.PrimaryKeyConstraint('schedule', 'window_start', 'source', 'label', 'segment', 'metric', 'population', name=op.f('pk_estimates'))
    )
    op.create_table('incidents',
    sa.Column('id', sa.String(length=32), nullable=False),
    sa.Column('open_key', sa.String(length=400), nullable=True),
    sa.Column('rule', sa.String(length=80), nullable=False),
    sa.Column('source', sa.Text(), nullable=False),
    sa.Column('label', sa.Text(), nullable=False),
    sa.Column('severity', sa.String(length=16), nullable=False),
    sa.Column('state', sa.String(length=16), nullable=False),
    sa.Column('schedule', sa.String(length=16), nullable=False),
    sa.Column('opened_at', sa.DateTime(), nullable=False),
    sa.Column('opened_window', sa.String(length=32), nullable=False),
    sa.Column('first_verdict', sa.String(length=32), nullable=False),
    sa.Column('last_verdict', sa.String(length=32), nullable=False),
    sa.Column('last_window_start', sa.DateTime(), nullable=False),
    sa.Column('breaches', sa.Integer(), nullable=False),
    sa.Column('reason', sa.String(length=64), nullable=False),
    sa.Column('resolved_at', sa.DateTime(), nullable=True),
    sa.Column('resolved_window', sa.String(length=32), nullable=True),
    sa.PrimaryKeyConstraint('id', name=op.f('pk_incidents')),
    sa.UniqueConstraint('open_key', name=op.f('uq_incidents_open_key'))
    )
    op.create_table('quality',
    sa.Column('schedule', sa.Text(), nullable=False),
    sa.Column('window_start', sa.DateTime(), nullable=False),
    sa.Column('source', sa.Text(), nullable=False),
    sa.Column('reason', sa.Text(), nullable=False),
    sa.Column('rows', sa.Integer(), nullable=False),
    sa.Column('examples', sa.JSON(), nullable=False),
    sa.PrimaryKeyConstraint('schedule', 'window_start', 'source', 'reason', name=op.f('pk_quality'))
    )
    op.create_table('readings',
    sa.Column('schedule', sa.Text(), nullable=False),
    sa.Column('window_start', sa.DateTime(), nullable=False),
    sa.Column('source', sa.Text(), nullable=False),
    sa.Column('state', sa.String(length=32), nullable=False),
    sa.Column('error', sa.Text(), nullable=True),
    sa.Column('rows', sa.Integer(), nullable=False),
    sa.Column('versions', sa.JSON(), nullable=False),
    sa.Column('digest', sa.String(length=64), nullable=False),
    sa.Column('read_at', sa.DateTime(), nullable=False),
    sa.PrimaryKeyConstraint('schedule', 'window_start', 'source', name=op.f('pk_readings'))
    )
    op.create_table('runs',
    sa.Column('schedule', sa.Text(), nullable=False),
    sa.Column('window_start', sa.DateTime(), nullable=False),
    sa.Column('window_end', sa.DateTime(), nullable=False),
    sa.Column('window_name', sa.String(length=32), nullable=False),
    sa.Column('run', sa.String(length=64), nullable=False),
    sa.Column('state', sa.String(length=32), nullable=False),
    sa.Column('started_at', sa.DateTime(), nullable=False),
    sa.Column('finished_at', sa.DateTime(), nullable=True),
    sa.Column('attempts', sa.Integer(), nullable=False),
    sa.Column('acts', sa.Boolean(), nullable=False),
    sa.Column('rules_revision', sa.String(length=32), nullable=False),
    sa.Column('error', sa.Text(), nullable=True),
    sa.PrimaryKeyConstraint('schedule', 'window_start', name=op.f('pk_runs'))
    )
    op.create_table('shifts',
    sa.Column('schedule', sa.Text(), nullable=False),
    sa.Column('window_start', sa.DateTime(), nullable=False),
    sa.Column('source', sa.Text(), nullable=False),
    sa.Column('label', sa.Text(), nullable=False),
    sa.Column('test', sa.String(length=32), nullable=False),
    sa.Column('column', sa.Text(), nullable=False),
    sa.Column('window_name', sa.String(length=32), nullable=False),
    sa.Column('statistic', sa.Float(precision=53), nullable=True),
    sa.Column('p_value', sa.Float(precision=53), nullable=True),
    sa.Column('n', sa.Integer(), nullable=False),
    sa.Column('n_baseline', sa.Integer(), nullable=False),
    sa.Column('detail', sa.JSON(), nullable=False),
    sa.PrimaryKeyConstraint('schedule', 'window_start', 'source', 'label', 'test', 'column', name=op.f('pk_shifts'))
    )
    op.create_table('switch_events',
    sa.Column('id', sa.Integer(), autoincrement=True, nullable=False),
    sa.Column('key', sa.String(length=400), nullable=False),
    sa.Column('source', sa.Text(), nullable=False),
    sa.Column('label', sa.Text(), nullable=False),
    sa.Column('at', sa.DateTime(), nullable=False),
    sa.Column('kind', sa.String(length=32), nullable=False),
    sa.Column('from_state', sa.String(length=16), nullable=False),
    sa.Column('to_state', sa.String(length=16), nullable=False),
    sa.Column('blocked', sa.JSON(), nullable=False),
    sa.Column('lease_until', sa.DateTime(), nullable=True),
    sa.Column('until', sa.DateTime(), nullable=True),
    sa.Column('actor', sa.Text(), nullable=False),
    sa.Column('reason', sa.Text(), nullable=False),
    sa.Column('verdict', sa.String(length=32), nullable=True),
    sa.PrimaryKeyConstraint('id', name=op.f('pk_switch_events')),
    sa.UniqueConstraint('key', 'source', 'label', name='uq_switch_events_key')
    )
    op.create_table('switches',
    sa.Column('source', sa.Text(), nullable=False),
    sa.Column('label', sa.Text(), nullable=False),
    sa.Column('state', sa.String(length=16), nullable=False),
    sa.Column('blocked', sa.JSON(), nullable=False),
    sa.Column('lease_until', sa.DateTime(), nullable=True),
    sa.Column('hold_until', sa.DateTime(), nullable=True),
    sa.Column('by_operator', sa.Boolean(), nullable=False),
    sa.Column('actor', sa.Text(), nullable=False),
    sa.Column('reason', sa.Text(), nullable=False),
    sa.Column('verdict', sa.String(length=32), nullable=True),
    sa.Column('ok_streak', sa.Integer(), nullable=False),
    sa.Column('last_window_end', sa.DateTime(), nullable=True),
    sa.Column('changed_at', sa.DateTime(), nullable=False),
    sa.Column('version', sa.Integer(), nullable=False),
    sa.PrimaryKeyConstraint('source', 'label', name=op.f('pk_switches'))
    )
    op.create_table('verdicts',
    sa.Column('id', sa.String(length=32), nullable=False),
    sa.Column('schedule', sa.String(length=16), nullable=False),
    sa.Column('window_start', sa.DateTime(), nullable=False),
    sa.Column('window_end', sa.DateTime(), nullable=False),
    sa.Column('window_name', sa.String(length=32), nullable=False),
    sa.Column('source', sa.Text(), nullable=False),
    sa.Column('label', sa.Text(), nullable=False),
    sa.Column('rule', sa.String(length=80), nullable=False),
    sa.Column('metric', sa.String(length=64), nullable=False),
    sa.Column('population', sa.String(length=16), nullable=False),
    sa.Column('outcome', sa.String(length=16), nullable=False),
    sa.Column('reason', sa.String(length=64), nullable=False),
    sa.Column('severity', sa.String(length=16), nullable=False),
    sa.Column('threshold', sa.Float(precision=53), nullable=False),
    sa.Column('value', sa.Float(precision=53), nullable=True),
    sa.Column('low', sa.Float(precision=53), nullable=True),
    sa.Column('high', sa.Float(precision=53), nullable=True),
    sa.Column('plug_in', sa.Float(precision=53), nullable=True),
    sa.Column('baseline', sa.Float(precision=53), nullable=True),
    sa.Column('change', sa.Float(precision=53), nullable=True),
    sa.Column('change_low', sa.Float(precision=53), nullable=True),
    sa.Column('change_high', sa.Float(precision=53), nullable=True),
    sa.Column('p_value', sa.Float(precision=53), nullable=True),
    sa.Column('p_adjusted', sa.Float(precision=53), nullable=True),
    sa.Column('detectable', sa.Float(precision=53), nullable=True),
    sa.Column('n', sa.Integer(), nullable=False),
    sa.Column('windows', sa.Integer(), nullable=False),
    sa.Column('baseline_version', sa.Integer(), nullable=True),
    sa.Column('rules_revision', sa.String(length=32), nullable=False),
    sa.Column('data_digest', sa.String(length=64), nullable=False),
    sa.Column('actions', sa.JSON(), nullable=False),
    sa.Column('detail', sa.JSON(), nullable=False),
    sa.Column('stored_at', sa.DateTime(), nullable=False),
    sa.Column('current', sa.Boolean(), nullable=False),
    sa.PrimaryKeyConstraint('id', name=op.f('pk_verdicts'))
    )
    op.create_index(op.f('ix_verdicts_window_start'), 'verdicts', ['window_start'], unique=False)


def downgrade() -> None:
    """Drop every table and all data."""
    op.drop_index(op.f('ix_verdicts_window_start'), table_name='verdicts')
    op.drop_table('verdicts')
    op.drop_table('switches')
    op.drop_table('switch_events')
    op.drop_table('shifts')
    op.drop_table('runs')
    op.drop_table('readings')
    op.drop_table('quality')
    op.drop_table('incidents')
    op.drop_table('estimates')
    op.drop_index(op.f('ix_deliveries_state'), table_name='deliveries')
    op.drop_table('deliveries')
    op.drop_table('counts')
    op.drop_table('baselines')
