"""A development cluster and a Python environment for one client of LSF, both in a directory of their
own below /tmp. Owns them and the cluster's processes; makes nothing outside. A client is installed
from PyPI, unmodified; where that cannot be reached the script ends with 77 and the reason.

CORRAL_CLIENTS_BIN: the directory of the programs to try (target/debug).
"""
import os
import shutil
import subprocess
import sys
import tempfile
import time
import venv

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
PIP_SECONDS = 600


def skip(why):
    """Ends with the code that says: this machine cannot show it."""
    print(f"skipped: {why}")
    sys.exit(77)


def check(condition, text):
    if not condition:
        sys.exit(f"failed: {text}")


class Bed:
    """A cluster (`up`: options of cadmin dev up) and an environment with `packages`; `with` takes both
    away again."""

    def __init__(self, *packages, up=("--hosts", "2")):
        self.packages = packages
        self.up = up
        self.dir = tempfile.mkdtemp(prefix="corral-client-")
        self.work = os.path.join(self.dir, "work")
        self.cluster = os.path.join(self.dir, "cluster")
        self.venv = os.path.join(self.dir, "venv")
        self.cb = os.path.join(os.environ.get("CORRAL_CLIENTS_BIN", f"{ROOT}/target/debug"), "cb")

    def __enter__(self):
        try:
            check(os.path.exists(self.cb), f"{self.cb} is not built: cargo build --bins")
            os.mkdir(self.work)
            self.install()
            up = [self.cb, "cadmin", "dev", "up", "--dir", self.cluster, *self.up]
            subprocess.run(up, check=True)
            return self
        except BaseException:
            self.__exit__()
            raise

    def __exit__(self, *_):
        if os.path.exists(self.cluster):
            down = [self.cb, "cadmin", "dev", "down", "--purge", "--dir", self.cluster]
            subprocess.run(down, check=False)
        shutil.rmtree(self.dir, ignore_errors=True)

    def install(self):
        try:
            venv.create(self.venv, with_pip=True)
        except (subprocess.CalledProcessError, ImportError) as e:
            skip(f"no virtual environment can be made (Debian: python3-venv): {e}")
        pip = [f"{self.venv}/bin/pip", "-q", "install", "--disable-pip-version-check", *self.packages]
        try:
            done = subprocess.run(pip, capture_output=True, text=True, timeout=PIP_SECONDS, check=False)
        except subprocess.TimeoutExpired:
            skip(f"pip did not install {' '.join(self.packages)} in {PIP_SECONDS} s")
        if done.returncode != 0:
            last = (done.stderr.strip() or "pip said nothing").splitlines()[-1]
            skip(f"pip cannot install {' '.join(self.packages)}: {last}")

    def shell(self, line, seconds=300):
        """Runs a line in the cluster's environment, the Python environment's programs first."""
        env = f'eval "$("{self.cb}" cadmin dev env --dir "{self.cluster}")"'
        text = f'{env}\nexport PATH="{self.venv}/bin:$PATH"\n{line}'
        return subprocess.run(["bash", "-c", text], cwd=self.work, text=True, timeout=seconds,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)

    def rows(self):
        """State and name of every job that the cluster remembers."""
        out = self.shell("bjobs -a -u all -noheader -o \"stat job_name delimiter='|'\"").stdout
        return [line.split("|") for line in out.splitlines() if "|" in line]

    def ended(self, seconds=60):
        """Waits until no job is left that has not ended."""
        end = time.monotonic() + seconds
        while True:
            left = [row for row in self.rows() if row[0] not in ("DONE", "EXIT")]
            if not left:
                return
            check(time.monotonic() < end, f"jobs that have not ended after {seconds} s: {left}")
            time.sleep(0.2)
