"""Add the history of what was at risk."""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "risk_sample",
        sa.Column("minute", sa.BigInteger(), nullable=False),
        sa.Column("dag_id", sa.String(), nullable=False),
        sa.Column("bytes", sa.BigInteger(), nullable=False),
        sa.Column("irrecoverable_bytes", sa.BigInteger(), nullable=False),
        sa.Column("recompute_seconds", sa.Float(), nullable=False),
        sa.PrimaryKeyConstraint("minute", "dag_id"),
    )


def downgrade() -> None:
    op.drop_table("risk_sample")
