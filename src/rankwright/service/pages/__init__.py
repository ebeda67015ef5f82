"""Pages of the service, rendered on the server: templates, static files and their routes."""
