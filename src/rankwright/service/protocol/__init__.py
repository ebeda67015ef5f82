"""HTTP: types of requests and answers, problems, the OpenAPI document, security."""
