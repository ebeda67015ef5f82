"""What a service imports, for the process that the services of tests are forked from."""

import importlib

for name in (
    "numba",
    "rankwright.cli.serve",
    "rankwright.runtime.kernels",
    "rankwright.selection.by_name",
    "rankwright.service.demo",
    "rankwright.service.server",
    "rankwright.service.workers.pool",
    "rankwright.service.workers.worker",
    "uvicorn.lifespan.on",
    "uvicorn.loops.auto",
    "uvicorn.protocols.http.httptools_impl",
):
    importlib.import_module(name)
