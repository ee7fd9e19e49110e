"""Four hosts on one machine, with names, addresses and control groups as real ones have them, and a
cluster of Corral on them. Owns the namespaces, the daemons and the directory below /tmp; makes
nothing outside them. Scripts of this folder call `enter` first and then use `Bed`.

Each host is a network and UTS namespace on one bridge. That takes root; jobs run as another user.
"""
import os
import pwd
import shutil
import signal
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
INSIDE = "CORRAL_APPS_INSIDE"
HOSTS = ["node1", "node2", "node3", "node4"]
# Who submits jobs.
USER = "nobody"
TOOLS = {"unshare": "util-linux", "nsenter": "util-linux", "setpriv": "util-linux",
         "ip": "iproute2", "mount": "mount"}

CONFIG = """\
cluster:
  name: apps
  administrators: [root]
  masters: node1
  allow_root_jobs: yes
{cluster}hosts:
- {{names: 'node[1-4]', slots: 2}}
queues:
- {{name: normal}}
{more}"""


class Failed(Exception):
    """What a check did not find."""


def skip(why):
    """Ends with the code that says: this machine cannot show it."""
    print(f"skipped: {why}")
    sys.exit(77)


def check(condition, text):
    if not condition:
        raise Failed(text)


def until(what, test, seconds=60.0, pause=0.1):
    """The first true value of `test`."""
    end = time.monotonic() + seconds
    while True:
        found = test()
        if found:
            return found
        check(time.monotonic() < end, f"{what}: not within {seconds:.0f} s")
        time.sleep(pause)


def need(program, package):
    """The path of a program."""
    path = shutil.which(program)
    if not path:
        skip(f"no {program}: apt-get install {package}")
    return path


def installed(package):
    """The version of a Debian package, for the list of parts; empty when it is not there."""
    out = subprocess.run(["dpkg-query", "-W", "-f", "${Version}", package],
                         capture_output=True, text=True, check=False)
    return out.stdout.strip() if out.returncode == 0 else ""


def parts(*packages):
    """Prints the parts with their versions; a missing one ends the script."""
    for package in packages:
        version = installed(package)
        if not version:
            skip(f"Debian's {package} is not installed: apt-get install {package}")
        print(f"part: {package} {version}")


def programs():
    """The folder of the programs to try."""
    own = os.environ.get("CORRAL_APPS_BIN")
    path = os.path.abspath(own) if own else os.path.join(ROOT, "target", "debug")
    for name in ("cb", "csub", "cbsched", "cbls", "cbexe", "cbtask"):
        if not os.path.exists(os.path.join(path, name)):
            skip(f"{path}/{name} is missing: cargo build --bins")
    return path


def enter():
    """Runs this script again in namespaces of its own. Nothing of it outlives them."""
    programs()
    if os.environ.get(INSIDE):
        return
    for tool, package in TOOLS.items():
        need(tool, package)
    base = ["unshare", "--mount", "--net", "--uts", "--pid", "--fork", "--kill-child",
            "--mount-proc"]
    if os.geteuid() != 0:
        skip("hosts with names of their own are made by root")
    if subprocess.run(base + ["true"], capture_output=True, check=False).returncode != 0:
        skip("no namespaces here")
    env = dict(os.environ)
    env[INSIDE] = "yes"
    code = subprocess.run(base + [sys.executable, *sys.argv], env=env, check=False).returncode
    sys.exit(code)


def run(argv, **more):
    done = subprocess.run(argv, capture_output=True, text=True, check=False, **more)
    check(done.returncode == 0, f"{' '.join(argv)}: {done.stdout}{done.stderr}")
    return done.stdout


class Host:
    """One host: a process that holds its namespaces."""

    def __init__(self, name, number):
        self.name, self.address = name, f"10.77.0.{number}"
        self.holder = subprocess.Popen(["unshare", "--net", "--uts", "sleep", "infinity"])
        me = [os.readlink(f"/proc/self/ns/{kind}") for kind in ("net", "uts")]

        def apart():
            try:
                own = [os.readlink(f"/proc/{self.holder.pid}/ns/{k}") for k in ("net", "uts")]
            except OSError:
                return False
            return all(a != b for a, b in zip(own, me))
        until(f"the namespaces of {name}", apart, 10, 0.01)
        outer, inner = f"v{number}", "eth0"
        run(["ip", "link", "add", outer, "type", "veth", "peer", "name", inner,
             "netns", str(self.holder.pid)])
        run(["ip", "link", "set", outer, "master", "br0", "up"])
        run(self.enter("hostname", name))
        run(self.enter("ip", "link", "set", "lo", "up"))
        run(self.enter("ip", "addr", "add", f"{self.address}/24", "dev", inner))
        run(self.enter("ip", "link", "set", inner, "up"))

    def enter(self, *argv):
        """A command line that runs another one on this host."""
        return ["nsenter", "--net", "--uts", "--target", str(self.holder.pid), *argv]


class Bed:
    """The hosts and their cluster; a context. `cluster` and `more`: lines of cb.yaml;
    `sensors`: texts of programs of ress.d by their names."""

    def __init__(self, cluster="", more="", sensors=None):
        self.bin, self.user = programs(), pwd.getpwnam(USER)
        self.dir = tempfile.mkdtemp(prefix="corral-apps.", dir="/tmp")
        os.chmod(self.dir, 0o755)
        self.links, self.work = f"{self.dir}/bin", f"{self.dir}/work"
        self.daemons = []
        self.hosts = []
        self.sensors = sensors or {}
        self.config = CONFIG.format(cluster=cluster, more=more)
        self.env = {"PATH": f"{self.links}:/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin",
                    "CB_ENVDIR": f"{self.dir}/etc", "LANG": "C.UTF-8", "HOME": self.work}

    def __enter__(self):
        try:
            self.up()
        except BaseException:
            self.down()
            raise
        return self

    def __exit__(self, kind, error, _):
        if error is not None and kind is not SystemExit:
            self.show_logs()
        self.down()

    def up(self):
        run(["ip", "link", "set", "lo", "up"])
        run(["ip", "link", "add", "br0", "type", "bridge"])
        run(["ip", "link", "set", "br0", "up"])
        names = "127.0.0.1 localhost\n"
        for number, name in enumerate(HOSTS, 1):
            names += f"10.77.0.{number} {name}\n"
        with open(f"{self.dir}/hosts", "w", encoding="utf-8") as file:
            file.write(names)
        run(["mount", "--bind", f"{self.dir}/hosts", "/etc/hosts"])
        self.hosts = [Host(name, number) for number, name in enumerate(HOSTS, 1)]
        for path in ("etc", "bin", "work", "log", "local", "sbin/ress.d"):
            os.makedirs(f"{self.dir}/{path}", mode=0o755, exist_ok=True)
        self.share_programs()
        with open(f"{self.dir}/cb.yaml", "w", encoding="utf-8") as file:
            file.write(self.config)
        for name, text in self.sensors.items():
            path = f"{self.dir}/sbin/ress.d/{name}"
            with open(path, "w", encoding="utf-8") as file:
                file.write(text)
            os.chmod(path, 0o755)
        with open(f"{self.dir}/etc/cb.conf", "w", encoding="utf-8") as file:
            file.write(f"CB_SHARE={self.dir}/share\nCB_SERVERDIR={self.dir}/sbin\n")
        for name in HOSTS:
            os.makedirs(f"{self.dir}/local/{name}", mode=0o755)
            etc = f"{self.dir}/etc/{name}"
            os.makedirs(etc, mode=0o755)
            with open(f"{etc}/cb.conf", "w", encoding="utf-8") as file:
                file.write(f"CB_SHARE={self.dir}/share\nCB_SERVERDIR={self.dir}/sbin\n"
                           f"CB_LOCAL={self.dir}/local/{name}\n")
        run([f"{self.links}/cadmin", "init", "--name", "apps", "--config", f"{self.dir}/cb.yaml",
             f"{self.dir}/share"], env=self.env)
        os.chown(self.work, self.user.pw_uid, self.user.pw_gid)
        for host in self.hosts:
            for role in ("cbsched", "cbls", "cbexe"):
                if role != "cbsched" or host.name == "node1":
                    self.start(host, role)
        want = len(HOSTS)

        def ready():
            done = self.command(self.hosts[0], "chosts", "-w", check=False)
            return sum(" ok " in line for line in done.stdout.splitlines()) == want
        until("a cluster that is ready", ready, 60)

    def share_programs(self):
        """Links for all commands, where the user of jobs reaches them."""
        # The checkout may lie where other users cannot look.
        os.makedirs(f"{self.dir}/programs", mode=0o755)
        for name in os.listdir(self.bin):
            path = os.path.join(self.bin, name)
            if name.startswith("cb") and os.path.isfile(path) and os.access(path, os.X_OK):
                run(["cp", "--reflink=auto", path, f"{self.dir}/programs/{name}"])
        names = subprocess.run([f"{self.dir}/programs/cb", "--help"], capture_output=True,
                               text=True, check=False).stdout
        words = {word.strip(",") for line in names.splitlines() for word in line.split()}
        for name in sorted(words | {"cadmin", "csub", "blaunch", "claunch", "cb"}):
            if name and (name[0] in "cb" or name == "sbatch") and name.isalpha():
                os.symlink(f"{self.dir}/programs/cb", f"{self.links}/{name}")

    def start(self, host, role):
        env = dict(self.env, CB_ENVDIR=f"{self.dir}/etc/{host.name}", CB_LOG="info")
        path = f"{self.dir}/log/{role}.{host.name}.log"
        with open(path, "ab") as log:
            child = subprocess.Popen(host.enter(f"{self.dir}/programs/{role}"), env=env,
                                     stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        self.daemons.append((role, host, child))

    def down(self):
        """Ends jobs and daemons, then removes everything."""
        if self.hosts:
            as_root = dict(self.env, CB_ENVDIR=f"{self.dir}/etc")
            try:
                subprocess.run(self.hosts[0].enter(f"{self.links}/ckill", "-u", "all", "0"),
                               env=as_root, capture_output=True, check=False, timeout=30)
            except subprocess.TimeoutExpired:
                pass
            end = time.monotonic() + 15
            while self.ranks() and time.monotonic() < end:
                time.sleep(0.1)
        for _, _, child in self.daemons:
            child.send_signal(signal.SIGTERM)
        for _, _, child in self.daemons:
            try:
                child.wait(20)
            except subprocess.TimeoutExpired:
                child.kill()
        for host in self.hosts:
            host.holder.kill()
            host.holder.wait()
        subprocess.run(["umount", "/etc/hosts"], capture_output=True, check=False)
        if os.environ.get("CORRAL_APPS_KEEP"):
            print(f"kept: {self.dir}")
        else:
            shutil.rmtree(self.dir, ignore_errors=True)

    def show_logs(self):
        for name in sorted(os.listdir(f"{self.dir}/log")):
            with open(f"{self.dir}/log/{name}", encoding="utf-8", errors="replace") as file:
                lines = file.read().splitlines()[-15:]
            print(f"--- {name}", *lines, sep="\n")

    # ---- what users do ----

    def line(self, host, *argv):
        """The command line by which the jobs' user runs this on a host."""
        return host.enter("setpriv", f"--reuid={self.user.pw_uid}", f"--regid={self.user.pw_gid}",
                          "--clear-groups", *argv)

    def command(self, host, *argv, check=True, **more):
        """Runs a command as that user, in the folder of jobs."""
        env = dict(self.env, **more.pop("env", {}))
        done = subprocess.run(self.line(host, *argv), env=env, cwd=self.work, text=True,
                              capture_output=True, check=False, timeout=300, **more)
        if check and done.returncode != 0:
            raise Failed(f"{' '.join(argv)}: {done.returncode}\n{done.stdout}{done.stderr}")
        return done

    def submit(self, *argv, **more):
        """The id of a submitted job."""
        out = self.command(self.hosts[0], "csub", *argv, **more).stdout
        check(out.startswith("Job <"), f"csub said: {out}")
        return int(out[5:out.index(">")])

    def sbatch(self, *argv):
        """The same by Slurm's command."""
        return int(self.command(self.hosts[0], "sbatch", "--parsable", *argv).stdout)

    def state(self, job):
        done = self.command(self.hosts[0], "cjobs", "-noheader", "-o", "stat", str(job))
        return done.stdout.strip()

    def wait(self, job, states=("DONE", "EXIT"), seconds=240):
        return until(f"job {job} in {' or '.join(states)}",
                     lambda: (self.state(job) in states) and self.state(job), seconds, 0.2)

    def done(self, job, output):
        """Waits for the job's end; what it wrote."""
        state = self.wait(job)
        text = self.read(output)
        check(state == "DONE", f"job {job}: {state}\n{text}")
        return text

    def read(self, name):
        path = f"{self.work}/{name}"
        if not os.path.exists(path):
            return ""
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read()

    def write(self, name, text, mode=0o755):
        path = f"{self.work}/{name}"
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        os.chmod(path, mode)
        return path

    def ranks(self, name=None):
        """Processes of jobs, all or those of a program: (pid, host, command line). They are known
        by their environment, whoever their parents are."""
        found = []
        names = {os.readlink(f"/proc/{h.holder.pid}/ns/uts"): h.name for h in self.hosts}
        for pid in filter(str.isdigit, os.listdir("/proc")):
            try:
                with open(f"/proc/{pid}/environ", "rb") as file:
                    ours = b"\0LSB_JOBID=" in b"\0" + file.read()
                with open(f"/proc/{pid}/cmdline", "rb") as file:
                    words = file.read().decode(errors="replace").split("\0")
                host = names.get(os.readlink(f"/proc/{pid}/ns/uts"), "?")
            except OSError:
                continue
            program = os.path.basename(words[0])
            if ours and program != "cbtask" and name in (None, program):
                found.append((int(pid), host, " ".join(words).strip()))
        return found


def main(body):
    """Runs a script's body; its exit code is 0, 1 or 77."""
    name = os.path.basename(sys.argv[0])
    began = time.monotonic()
    try:
        body()
    except Failed as failed:
        print(f"{name}: FAILED: {failed}")
        sys.exit(1)
    print(f"{name}: ok, {time.monotonic() - began:.1f} s")
