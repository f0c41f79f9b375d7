"""Runs the migrations on the connection passed by `springline.persistence.catalog.database`."""

from alembic import context

from springline.persistence.catalog.schema import metadata

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=metadata,
    render_as_batch=True,
    transaction_per_migration=False,
)
with context.begin_transaction():
    context.run_migrations()
