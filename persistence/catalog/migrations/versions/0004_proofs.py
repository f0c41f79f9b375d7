"""Add the claims on proofs of operations."""

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None


def upgrade() -> None:
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


def downgrade() -> None:
    op.drop_table("proof")
