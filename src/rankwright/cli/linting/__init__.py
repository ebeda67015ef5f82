"""Rules that data should keep: each gives a finding that says where, why and what to do."""

from rankwright.cli.linting.files import check_file
from rankwright.cli.linting.findings import Finding

__all__ = ["Finding", "check_file"]
