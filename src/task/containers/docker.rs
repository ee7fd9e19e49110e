//! The commands that run a job's container by docker's daemon, and that remove it.
//!
//! The daemon is root and starts containers as its own children. So that limits, suspensions, kills
//! and accounting of the job apply to them nevertheless, each container gets a control group below
//! that of the job. If that is impossible, nothing is started: the job has no group, its group has
//! different paths in the hierarchies of version 1, or the daemon leaves groups to systemd, which
//! accepts only slices. Owns the shell text. Runs nothing.

/// `$1` working directory, `$2` script or empty, `$3` number of words of options; then these, image
/// and command. The options that keep the container in the job follow the job's own options,
/// because the last one takes effect. The daemon's process limits differ from the job's, so the
/// job's are passed.
pub(super) const RUN: &str = r#"
cwd=$1 script=$2 own=$3 bound= group=; shift 3
fail() { echo "container: $*" >&2; exit 125; }
host=${DOCKER_HOST:-unix:///var/run/docker.sock}
case $host in
  unix:///*) ;;
  *) fail "docker: DOCKER_HOST must be a socket of this host, unix:///PATH, and is $host";;
esac
while IFS=: read -r n name path; do
  case $path in */corral.*) ;; *) continue;; esac
  [ "${group:-$path}" = "$path" ] ||
    fail "docker: the job's control groups have different paths, $group and $path: docker names one"
  group=$path
done </proc/self/cgroup
[ -n "$group" ] || fail "docker: this job has no control group, so its container would not be held"
driver=$(docker --host "$host" info --format '{{.CgroupDriver}}' 2>&1) || fail "docker: $driver"
[ "$driver" = cgroupfs ] ||
  fail "docker: its daemon must use the driver cgroupfs for control groups, and uses: $driver"
[ -z "$script" ] || set -- "$@" "$(cat "$script")"
rest=$(($# - own))
while [ "$own" -gt 0 ]; do set -- "$@" "$1"; shift; own=$((own - 1)); done
set -- "$@" --rm --interactive --log-driver none --user "$(id -u):$(id -g)" --cap-drop ALL \
  --security-opt no-new-privileges --cgroup-parent "$group" \
  --label "corral.task=$CB_EXEC_HOST.$CB_JOBID.$CB_JOBINDEX.$CB_ATTEMPT"
for n in $(id -G); do set -- "$@" --group-add "$n"; done
while [ "$rest" -gt 0 ]; do set -- "$@" "$1"; shift; rest=$((rest - 1)); done
for p in "$cwd" "$HOME" "$TMPDIR"; do
  case $p in ''|/) continue;; /tmp) [ "$cwd" = /tmp ] || continue;; esac
  case $bound in *"|$p|"*) continue;; esac
  [ ! -d "$p" ] || set -- --mount "type=bind,source=$p,target=$p" "$@"
  bound="$bound|$p|"
done
for n in $(env | sed -n 's/^\([A-Za-z_][A-Za-z0-9_]*\)=.*/\1/p'); do
  case $n in PATH|PWD|OLDPWD|SHLVL|_|HOSTNAME|DOCKER_*) continue;; esac
  set -- --env "$n" "$@"
done
limits() {
  for n in "cpu time=cpu" "file size=fsize" "data size=data" "stack size=stack" \
    "core file size=core" "processes=nproc" "open files=nofile" "locked memory=memlock"; do
    sed -n "s/^Max ${n%=*}  *\([^ ]*\)  *\([^ ]*\) .*/${n#*=}=\1:\2/p" /proc/self/limits
  done | sed 's/unlimited/-1/g'
}
for n in $(limits); do set -- --ulimit "$n" "$@"; done
for d in $(gpus); do set -- --device "$d" "$@"; done
[ ! -t 0 ] || set -- --tty "$@"
exec docker --host "$host" run --network host --workdir "$cwd" "$@"
"#;

/// Removes what the daemon still has of a container whose job was killed.
pub(super) const REMOVE: &str = r#"
PATH=$PATH:/usr/local/bin
host=${DOCKER_HOST:-unix:///var/run/docker.sock}
case $host in unix:///*) ;; *) exit 0;; esac
task=$CB_EXEC_HOST.$CB_JOBID.$CB_JOBINDEX.$CB_ATTEMPT
left() { docker --host "$host" ps -aq --filter "label=corral.task=$task"; }
for n in 1 2 3; do
  ids=$(left) || exit
  [ -n "$ids" ] || exit 0
  docker --host "$host" rm -f $ids >/dev/null 2>&1
done
[ -z "$(left)" ]
"#;

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::Permissions;
    use std::os::unix::fs::PermissionsExt;
    use std::path::Path;
    use std::process::Command;

    fn write(path: &Path, text: &str) {
        std::fs::write(path, text).unwrap();
    }

    /// Runs the text with a `docker` that prints its arguments.
    fn run(host: &str, driver: &str) -> (Option<i32>, String) {
        let dir = tempfile::tempdir().unwrap();
        let docker = dir.path().join("docker");
        let text =
            format!("#!/bin/sh\ncase $3 in info) echo {driver};; *) printf '<%s>' \"$@\";; esac\n");
        write(&docker, &text);
        std::fs::set_permissions(&docker, Permissions::from_mode(0o755)).unwrap();
        let path = format!("{}:/usr/bin:/bin", dir.path().display());
        let grouped = RUN.replace(
            "/proc/self/cgroup",
            &dir.path().join("cgroup").to_string_lossy(),
        );
        let groups = "8:pids:/corral.h1/p.1\n7:blkio:/\n4:memory:/corral.h1/p.1\n0::/\n";
        write(&dir.path().join("cgroup"), groups);
        let text = format!("gpus() {{ :; }}\n{grouped}");
        let words = [
            "container",
            "/",
            "",
            "2",
            "--user",
            "root",
            "img",
            "sh",
            "-c",
            "a b",
        ];
        let out = Command::new("/bin/sh")
            .args(["-c", &text])
            .args(words)
            .env_clear()
            .env("PATH", path)
            .env("DOCKER_HOST", host)
            .output()
            .unwrap();
        let output = [out.stdout, out.stderr].concat();
        (
            out.status.code(),
            String::from_utf8_lossy(&output).into_owned(),
        )
    }

    #[test]
    fn what_keeps_the_container_in_the_job_comes_after_the_jobs_own_options() {
        let (code, output) = run("unix:///run/d.sock", "cgroupfs");
        assert_eq!(code, Some(0), "{output}");
        let at = |word: &str| {
            output
                .find(word)
                .unwrap_or_else(|| panic!("{word}: {output}"))
        };
        let user = format!("<--user><{}:", nix::unistd::Uid::effective());
        assert!(at("<--user><root>") < at(&user));
        assert!(at(&user) < at("<--cgroup-parent></corral.h1/p.1>"));
        assert!(at("<--cgroup-parent>") < at("<img><sh><-c><a b>"));
        assert!(output.ends_with("<img><sh><-c><a b>"), "{output}");
        assert!(
            output.starts_with("<--host><unix:///run/d.sock><run>"),
            "{output}"
        );
        assert!(output.contains("<--ulimit><nofile=") && output.contains("<--ulimit><nproc="));
    }

    #[test]
    fn no_container_is_started_where_the_job_would_not_hold_it() {
        let refused = |host: &str, driver: &str, why: &str| {
            let (code, output) = run(host, driver);
            assert!(
                code == Some(125) && output.contains(why),
                "{code:?} {output}"
            );
            assert!(!output.contains("<run>"), "{output}");
        };
        refused(
            "tcp://10.0.0.1:2375",
            "cgroupfs",
            "must be a socket of this host",
        );
        refused(
            "unix:///run/d.sock",
            "systemd",
            "must use the driver cgroupfs",
        );
    }

    #[test]
    fn no_container_is_started_without_one_group_of_the_job() {
        let of = |groups: &str| {
            let dir = tempfile::tempdir().unwrap();
            let file = dir.path().join("cgroup");
            write(&file, groups);
            let text = RUN.replace("/proc/self/cgroup", &file.to_string_lossy());
            let out = Command::new("/bin/sh")
                .args(["-c", &text, "container", "/", "", "0", "img", "true"])
                .env_clear()
                .output()
                .unwrap();
            assert_eq!(out.status.code(), Some(125));
            String::from_utf8_lossy(&out.stderr).into_owned()
        };
        assert!(of("0::/user.slice\n").contains("has no control group"));
        let message = of("8:pids:/corral.h1/p.1\n4:memory:/x/corral.h1/p.1\n");
        assert!(
            message.contains("different paths, /corral.h1/p.1 and /x/corral.h1/p.1"),
            "{message}"
        );
    }
}
