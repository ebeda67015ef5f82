"""From changes to gains."""
