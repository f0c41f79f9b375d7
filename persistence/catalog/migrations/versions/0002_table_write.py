"""Record which generations are in tables of Delta Lake and Iceberg."""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "table_write",
        sa.Column("generation_id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("table", sa.String(), nullable=False),
        sa.Column("versions", sa.String(), nullable=False),
        sa.Column("lease_owner", sa.String(), nullable=False),
        sa.Column("lease_number", sa.BigInteger(), nullable=False),
        sa.Column("lease_until", sa.Float(), nullable=True),
        sa.Column("not_before", sa.Float(), nullable=False),
        sa.Column("attempts", sa.Integer(), nullable=False),
        sa.Column("error", sa.String(), nullable=False),
        sa.ForeignKeyConstraint(["generation_id"], ["generation.id"]),
        sa.PrimaryKeyConstraint("generation_id", "table"),
    )


def downgrade() -> None:
    op.drop_table("table_write")
