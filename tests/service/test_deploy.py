"""The files in deploy/: linted where the linter is installed, and true about our options."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

DEPLOY = Path(__file__).parents[2] / "deploy"
MANIFESTS = sorted((DEPLOY / "kubernetes").glob("*.yaml"))
STARTS = ("compose.yaml", "rankwright.service", "kubernetes/statefulset.yaml", "nginx.conf")


def run(*words, **more):
    return subprocess.run(words, capture_output=True, text=True, **more)


def linter(name):
    """The path of a program, in this environment or in the system."""
    found = shutil.which(name, path=str(Path(sys.executable).parent)) or shutil.which(name)
    if found is None:
        pytest.skip(f"{name} is not installed")
    return found


def test_the_dockerfile_is_clean():
    done = run(linter("hadolint"), str(DEPLOY / "Dockerfile"))
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize("path", MANIFESTS, ids=lambda path: path.name)
def test_kubernetes_knows_every_field_of_the_manifests(path):
    validator = pytest.importorskip("kubernetes_validate")
    yaml = pytest.importorskip("yaml")
    for document in yaml.safe_load_all(path.read_text()):
        validator.validate(document, validator.latest_version(), strict=True)


def test_containers_have_a_read_only_root_and_no_rights():
    yaml = pytest.importorskip("yaml")
    for service in yaml.safe_load((DEPLOY / "compose.yaml").read_text())["services"].values():
        assert service["read_only"]
        assert service["user"] == "10001:10001"
        assert service["cap_drop"] == ["ALL"]
    pod = yaml.safe_load((DEPLOY / "kubernetes/statefulset.yaml").read_text())["spec"]["template"]
    assert pod["spec"]["securityContext"]["runAsNonRoot"]
    (container,) = pod["spec"]["containers"]
    assert container["securityContext"]["readOnlyRootFilesystem"]


def test_systemd_accepts_the_unit(tmp_path):
    program = linter("systemd-analyze")
    for name in ("rankwright.service", "rankwright.socket"):
        text = (DEPLOY / name).read_text().replace("/opt/rankwright/bin/rankwright", "/bin/true")
        (tmp_path / name).write_text(text)
    done = run(program, "verify", str(tmp_path / "rankwright.service"))
    assert done.returncode == 0, done.stderr
    assert "rankwright" not in done.stderr


def test_nginx_accepts_its_example(tmp_path):
    program = linter("nginx")
    lines = (DEPLOY / "nginx.conf").read_text().splitlines()
    plain = [line.replace("443 ssl", "127.0.0.1:18443") for line in lines]
    plain = [line for line in plain if "ssl_" not in line and "http2" not in line]
    (tmp_path / "nginx.conf").write_text("\n".join(plain))
    prefix = ["-p", str(tmp_path), "-e", "stderr", "-g", f"pid {tmp_path}/pid;"]
    done = run(program, "-t", "-c", str(tmp_path / "nginx.conf"), *prefix)
    assert "syntax is ok" in done.stderr, done.stderr


@pytest.mark.parametrize("name", STARTS)
def test_options_are_those_of_the_command(name):
    known = run(sys.executable, "-m", "rankwright", "serve", "--help").stdout
    used = set(re.findall(r"(?<![\w-])--[a-z][a-z-]+", (DEPLOY / name).read_text()))
    used -= {"--build", "--now"}  # of docker compose and systemctl
    assert used
    assert {option for option in used if option not in known} == set()


def test_the_entry_point_copies_the_kernels_and_serves(tmp_path):
    """The script of the image, with folders of this test and a program that prints its words."""
    text = (DEPLOY / "entrypoint.sh").read_text().replace("/opt/kernels", str(tmp_path / "built"))
    (tmp_path / "built").mkdir()
    (tmp_path / "built" / "kernel.nbi").write_text("x")
    (tmp_path / "bin").mkdir()
    program = tmp_path / "bin" / "rankwright"
    program.write_text('#!/bin/sh\necho "$@"\n')
    program.chmod(0o755)
    environment = {
        "PATH": f"{tmp_path / 'bin'}:/usr/bin:/bin",
        "NUMBA_CACHE_DIR": str(tmp_path / "k"),
    }
    done = run("/bin/sh", "-c", text, "entrypoint", "--demo", env=environment)
    assert done.stdout.split() == ["serve", "--log-format", "json", "--demo"]
    assert (tmp_path / "k" / "kernel.nbi").exists()
