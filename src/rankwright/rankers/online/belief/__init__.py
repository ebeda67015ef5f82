"""Online rankers that keep a belief about the rule instead of one rule."""
