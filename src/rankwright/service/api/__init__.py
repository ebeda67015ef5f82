"""The operations of the API: ranking, feedback, models, training, experiments."""
