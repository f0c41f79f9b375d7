"""Create the tables of the catalog."""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "commit_counter",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("number", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_table(
        "dag_run",
        sa.Column("dag_id", sa.String(), nullable=False),
        sa.Column("run_id", sa.String(), nullable=False),
        sa.Column("started_at", sa.Float(), nullable=False),
        sa.Column("snapshot", sa.BigInteger(), nullable=False),
        sa.Column("ended_at", sa.Float(), nullable=True),
        sa.Column("outcome", sa.String(), nullable=False),
        sa.PrimaryKeyConstraint("dag_id", "run_id"),
    )
    op.create_table(
        "generation",
        sa.Column("id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("path", sa.String(), nullable=False),
        sa.Column("generation", sa.Integer(), nullable=False),
        sa.Column("phase", sa.String(), nullable=False),
        sa.Column("cache", sa.String(), nullable=False),
        sa.Column("under", sa.String(), nullable=False),
        sa.Column("bytes", sa.BigInteger(), nullable=False),
        sa.Column("rows", sa.BigInteger(), nullable=True),
        sa.Column("checksum", sa.String(), nullable=False),
        sa.Column("digest", sa.String(), nullable=False),
        sa.Column("strategy", sa.String(), nullable=False),
        sa.Column("persist_requested", sa.Boolean(), nullable=False),
        sa.Column("checkpoint", sa.Boolean(), nullable=False),
        sa.Column("pinned", sa.Boolean(), nullable=False),
        sa.Column("superseded", sa.Boolean(), nullable=False),
        sa.Column("reads", sa.Integer(), nullable=False),
        sa.Column("operation", sa.String(), nullable=True),
        sa.Column("version", sa.String(), nullable=True),
        sa.Column("params", sa.JSON(none_as_null=True), nullable=True),
        sa.Column("dag_id", sa.String(), nullable=False),
        sa.Column("run_id", sa.String(), nullable=False),
        sa.Column("task_id", sa.String(), nullable=False),
        sa.Column("compute_seconds", sa.Float(), nullable=True),
        sa.Column("report", sa.JSON(none_as_null=True), nullable=True),
        sa.Column("created_at", sa.Float(), nullable=False),
        sa.Column("committed_at", sa.Float(), nullable=True),
        sa.Column("commit_number", sa.BigInteger(), nullable=True),
        sa.Column("persisted_at", sa.Float(), nullable=True),
        sa.Column("last_read_at", sa.Float(), nullable=True),
        sa.Column("expedited", sa.Boolean(), nullable=False),
        sa.Column("score", sa.Float(), nullable=False),
        sa.Column("not_before", sa.Float(), nullable=False),
        sa.Column("lease_owner", sa.String(), nullable=False),
        sa.Column("lease_number", sa.BigInteger(), nullable=False),
        sa.Column("lease_until", sa.Float(), nullable=True),
        sa.Column("claimed_at", sa.Float(), nullable=True),
        sa.Column("sent_bytes", sa.BigInteger(), nullable=False),
        sa.Column("method", sa.String(), nullable=True),
        sa.Column("predicted_seconds", sa.Float(), nullable=True),
        sa.Column("actual_seconds", sa.Float(), nullable=True),
        sa.Column("attempts", sa.Integer(), nullable=False),
        sa.Column("error", sa.String(), nullable=False),
        sa.Column("cache_location", sa.String(), nullable=False),
        sa.Column("under_location", sa.String(), nullable=False),
        sa.Column("under_checksum", sa.String(), nullable=False),
        sa.PrimaryKeyConstraint("id"),
        sa.UniqueConstraint("path", "generation", name="uq_generation_path"),
    )
    op.create_index(
        "ix_generation_cached",
        "generation",
        ["bytes"],
        unique=False,
        sqlite_where=sa.text("cache = 'present'"),
        postgresql_where=sa.text("cache = 'present'"),
    )
    op.create_index("ix_generation_commit", "generation", ["commit_number"], unique=False)
    op.create_index(
        "ix_generation_lease",
        "generation",
        ["lease_until"],
        unique=False,
        sqlite_where=sa.text("under = 'copying'"),
        postgresql_where=sa.text("under = 'copying'"),
    )
    op.create_index(
        "ix_generation_old",
        "generation",
        ["id"],
        unique=False,
        sqlite_where=sa.text("superseded = 1 AND phase = 'committed'"),
        postgresql_where=sa.text("superseded AND phase = 'committed'"),
    )
    op.create_index(
        "ix_generation_open",
        "generation",
        ["id"],
        unique=False,
        sqlite_where=sa.text("phase = 'open'"),
        postgresql_where=sa.text("phase = 'open'"),
    )
    op.create_index("ix_generation_operation", "generation", ["operation", "version"], unique=False)
    op.create_index(
        "ix_generation_queue",
        "generation",
        [sa.literal_column("expedited DESC"), sa.literal_column("score DESC"), "id"],
        unique=False,
        sqlite_where=sa.text("persist_requested = 1 AND under = 'none' AND phase = 'committed'"),
        postgresql_where=sa.text("persist_requested AND under = 'none' AND phase = 'committed'"),
    )
    op.create_index("ix_generation_run", "generation", ["run_id", "dag_id"], unique=False)
    op.create_index(
        "ix_generation_unsettled",
        "generation",
        ["id"],
        unique=False,
        sqlite_where=sa.text("under != 'present' AND phase = 'committed'"),
        postgresql_where=sa.text("under != 'present' AND phase = 'committed'"),
    )

    op.create_table(
        "measurement",
        sa.Column("id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("kind", sa.String(), nullable=False),
        sa.Column("side", sa.String(), nullable=False),
        sa.Column("bytes", sa.BigInteger(), nullable=False),
        sa.Column("bytes_out", sa.BigInteger(), nullable=False),
        sa.Column("seconds", sa.Float(), nullable=False),
        sa.Column("measured_at", sa.Float(), nullable=False),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_index("ix_measurement_kind", "measurement", ["kind", "side", "id"], unique=False)

    op.create_table(
        "operation",
        sa.Column("name", sa.String(), nullable=False),
        sa.Column("version", sa.String(), nullable=False),
        sa.Column("idempotent", sa.Boolean(), nullable=False),
        sa.Column("checkpoint", sa.Boolean(), nullable=False),
        sa.Column("runnable", sa.Boolean(), nullable=False),
        sa.Column("nondeterministic", sa.Boolean(), nullable=False),
        sa.Column("repeats", sa.Integer(), nullable=False),
        sa.Column("reads", sa.JSON(), nullable=False),
        sa.Column("output", sa.String(), nullable=False),
        sa.PrimaryKeyConstraint("name", "version"),
    )
    op.create_table(
        "proof",
        sa.Column("operation", sa.String(), nullable=False),
        sa.Column("version", sa.String(), nullable=False),
        sa.Column("lease_owner", sa.String(), nullable=False),
        sa.Column("lease_number", sa.BigInteger(), nullable=False),
        sa.Column("lease_until", sa.Float(), nullable=True),
        sa.Column("not_before", sa.Float(), nullable=False),
        sa.Column("attempts", sa.Integer(), nullable=False),
        sa.Column("scratch", sa.String(), nullable=False),
        sa.Column("error", sa.String(), nullable=False),
        sa.PrimaryKeyConstraint("operation", "version"),
    )
    op.create_table(
        "reader",
        sa.Column("id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("generation_id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("until", sa.Float(), nullable=False),
        sa.ForeignKeyConstraint(
            ["generation_id"],
            ["generation.id"],
        ),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_index("ix_reader_generation_id", "reader", ["generation_id"], unique=False)

    op.create_table(
        "risk_sample",
        sa.Column("minute", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("dag_id", sa.String(), nullable=False),
        sa.Column("bytes", sa.BigInteger(), nullable=False),
        sa.Column("unproven_bytes", sa.BigInteger(), nullable=False),
        sa.Column("irrecoverable_bytes", sa.BigInteger(), nullable=False),
        sa.Column("recompute_seconds", sa.Float(), nullable=False),
        sa.PrimaryKeyConstraint("minute", "dag_id"),
    )
    op.create_table(
        "source",
        sa.Column("generation_id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("position", sa.Integer(), nullable=False),
        sa.Column("source_id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.ForeignKeyConstraint(
            ["generation_id"],
            ["generation.id"],
        ),
        sa.ForeignKeyConstraint(
            ["source_id"],
            ["generation.id"],
        ),
        sa.PrimaryKeyConstraint("generation_id", "position"),
    )
    op.create_index("ix_source_source_id", "source", ["source_id"], unique=False)

    op.create_table(
        "transition",
        sa.Column("id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("generation_id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("changed_at", sa.Float(), nullable=False),
        sa.Column("event", sa.String(), nullable=False),
        sa.Column("phase", sa.String(), nullable=False),
        sa.Column("cache", sa.String(), nullable=False),
        sa.Column("under", sa.String(), nullable=False),
        sa.Column("actor", sa.String(), nullable=False),
        sa.Column("reason", sa.String(), nullable=False),
        sa.ForeignKeyConstraint(
            ["generation_id"],
            ["generation.id"],
        ),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_index("ix_transition_changed_at", "transition", ["changed_at"], unique=False)
    op.create_index("ix_transition_generation_id", "transition", ["generation_id"], unique=False)


def downgrade() -> None:
    for table in (
        "transition",
        "source",
        "risk_sample",
        "reader",
        "proof",
        "operation",
        "measurement",
        "generation",
        "dag_run",
        "commit_counter",
    ):
        op.drop_table(table)
