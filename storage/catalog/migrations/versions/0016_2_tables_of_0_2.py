"""The tables as version 0.2 made them: what is older becomes so by that version's steps."""

revision = "0016.2"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Do nothing: no catalog comes here that does not have these tables."""
