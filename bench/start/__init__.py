"""What a start of `headend`, of its commands and of engines costs, and what they hold when idle."""
