//! Converts a job's command to the command that runs it in a container: by bubblewrap,
//! charliecloud, podman or apptainer, as the job's user, in the job's control group and under its
//! limits, because they use no daemon; or by docker, whose daemon gets that group. Owns their
//! options. Runs nothing.

mod apptainer;
mod docker;

use crate::model::{Container, ContainerRuntime};

/// Top directories that always come from the image, whatever is bound below them.
const SYSTEM: &[&str] = &[
    "bin", "sbin", "lib", "lib32", "lib64", "libx32", "usr", "etc", "var", "opt",
];

/// `$1` image, `$2` script or empty, `$3` top directories that do not come from the image; options
/// and the command. The text of a script is passed, since its copy is outside the container.
const BUBBLEWRAP: &str = r#"
image=$1 script=$2 skip=$3; shift 3
system=' bin sbin lib lib32 lib64 libx32 usr etc var opt dev proc sys '
[ -d "$image" ] || { echo "container: this host has no directory $image" >&2; exit 125; }
[ -z "$script" ] || set -- "$@" "$(cat "$script")"
for p in "$HOME" "$TMPDIR"; do
  top=${p#/}; top=${top%%/*}
  case $p in /?*) ;; *) continue;; esac
  case $system in *" $top "*) continue;; esac
  [ "$p" != /tmp ] && [ -d "$p" ] || continue
  skip="$skip$top "; set -- --bind "$p" "$p" "$@"
done
for d in "$image"/*; do
  name=${d##*/}
  case $skip in *" $name "*) continue;; esac
  if [ -L "$d" ]; then set -- --symlink "$(readlink "$d")" "/$name" "$@"
  elif [ -e "$d" ]; then set -- --ro-bind "$d" "/$name" "$@"; fi
done
for d in $(gpus); do set -- --dev-bind "$d" "$d" "$@"; done
exec bwrap --die-with-parent --unshare-pid --unshare-ipc --tmpfs /tmp --dev /dev --proc /proc "$@"
"#;

/// Lists the device files of GPUs, for a job that has some: the control group determines which of
/// them it may open.
const GPUS: &str = r#"
gpus() {
  [ -n "$CUDA_VISIBLE_DEVICES$ROCR_VISIBLE_DEVICES" ] || return 0
  for d in /dev/nvidia* /dev/kfd /dev/dri/render*; do [ ! -c "$d" ] || echo "$d"; done
}
"#;

/// `$1` working directory, `$2` script or empty; then options, image and command. The image's PATH
/// is used, because the job's PATH has directories of the host. The container gets no control group
/// of its own, so it stays in the job's; which low-level runtime supports this depends on the
/// version of control groups.
const PODMAN: &str = r#"
cwd=$1 script=$2 bound=; shift 2
[ "$(id -u)" != 0 ] || { echo "container: podman runs no jobs of root here" >&2; exit 125; }
[ -z "$script" ] || set -- "$@" "$(cat "$script")"
for p in "$cwd" "$HOME" "$TMPDIR"; do
  case $p in ''|/) continue;; /tmp) [ "$cwd" = /tmp ] || continue;; esac
  case $bound in *"|$p|"*) continue;; esac
  [ ! -d "$p" ] || set -- --mount "type=bind,source=$p,target=$p" "$@"
  bound="$bound|$p|"
done
for n in $(env | sed -n 's/^\([A-Za-z_][A-Za-z0-9_]*\)=.*/\1/p'); do
  case $n in PATH|PWD|OLDPWD|SHLVL|_|HOSTNAME|XDG_RUNTIME_DIR) continue;; esac
  set -- --env "$n" "$@"
done
for d in $(gpus); do set -- --device "$d" "$@"; done
[ ! -t 0 ] || set -- --tty "$@"
[ -O "$XDG_RUNTIME_DIR" ] || unset XDG_RUNTIME_DIR
runtime=
if [ -f /sys/fs/cgroup/cgroup.controllers ]; then set -- --cgroups=disabled "$@"
elif (PATH=$PATH:/usr/sbin:/sbin; command -v runc) >/dev/null; then runtime='--runtime runc'; fi
exec podman $runtime --cgroup-manager=cgroupfs run --rm --interactive --log-driver=none \
  --security-opt label=disable --network=host --userns=keep-id --ulimit=host \
  --label "corral.task=$CB_EXEC_HOST.$CB_JOBID.$CB_JOBINDEX.$CB_ATTEMPT" --workdir "$cwd" "$@"
"#;

/// Removes the remains of a killed container from podman's store. The first try may only find that
/// the container does not run any more.
const PODMAN_REMOVE: &str = r#"
PATH=$PATH:/usr/local/bin runtime=
[ -O "$XDG_RUNTIME_DIR" ] || unset XDG_RUNTIME_DIR
[ -f /sys/fs/cgroup/cgroup.controllers ] || ! command -v runc >/dev/null || runtime='--runtime runc'
podman() { command podman $runtime --cgroup-manager=cgroupfs "$@"; }
task=$CB_EXEC_HOST.$CB_JOBID.$CB_JOBINDEX.$CB_ATTEMPT
left() { podman ps -aq --filter "label=corral.task=$task"; }
[ "$(id -u)" != 0 ] || exit 0
for n in 1 2 3; do
  ids=$(left) || exit
  [ -n "$ids" ] || exit 0
  podman rm -f $ids >/dev/null 2>&1
done
[ -z "$(left)" ]
"#;

/// The program and arguments that remove containers of the task, if the runtime keeps records of
/// them.
pub(super) fn remover(runtime: ContainerRuntime) -> Option<Vec<String>> {
    let text = match runtime {
        ContainerRuntime::Podman => PODMAN_REMOVE,
        ContainerRuntime::Docker => docker::REMOVE,
        _ => return None,
    };
    Some(
        ["/bin/sh", "-c", text, "container"]
            .map(str::to_owned)
            .to_vec(),
    )
}

/// `$1` image, `$2` script or empty; then options, `--` and the command.
const CHARLIECLOUD: &str = r#"
image=$1 script=$2; shift 2
[ -d "$image" ] || { echo "container: this host has no directory $image" >&2; exit 125; }
[ -z "$script" ] || set -- "$@" "$(cat "$script")"
# It takes TMPDIR for what is to be /tmp.
if [ -n "$TMPDIR" ]; then set -- --set-env="TMPDIR=$TMPDIR" "$@"; unset TMPDIR; fi
exec ch-run "$@"
"#;

/// The command in the container. `script`: the local copy of the job's script, which is the last
/// argument in `argv`, or empty.
pub(super) fn wrapped(
    runtime: ContainerRuntime,
    container: &Container,
    cwd: &str,
    script: &str,
    mut argv: Vec<String>,
) -> Vec<String> {
    if !script.is_empty() && argv.last().is_some_and(|last| last == script) {
        argv.pop();
        argv.push("-c".to_owned());
    }
    let mut out = ["/bin/sh", "-c"].map(str::to_owned).to_vec();
    let word = |text: &str| text.to_owned();
    match runtime {
        ContainerRuntime::None => return argv,
        ContainerRuntime::Bubblewrap => {
            out.extend([GPUS.to_owned() + BUBBLEWRAP, word("container")]);
            out.extend([container.image.clone(), word(script), skipped(cwd)]);
            if cwd != "/" {
                out.extend([word("--bind"), word(cwd), word(cwd)]);
            }
            out.extend([word("--chdir"), word(cwd)]);
            out.extend(container.options.iter().cloned());
            out.push(word("--"));
        }
        ContainerRuntime::Podman => {
            out.extend([GPUS.to_owned() + PODMAN, word("container")]);
            out.extend([word(cwd), word(script)]);
            out.extend(container.options.iter().cloned());
            out.push(container.image.clone());
        }
        ContainerRuntime::Docker => {
            out.extend([GPUS.to_owned() + docker::RUN, word("container")]);
            out.extend([word(cwd), word(script), container.options.len().to_string()]);
            out.extend(container.options.iter().cloned());
            out.push(container.image.clone());
        }
        ContainerRuntime::Apptainer => {
            out.extend([apptainer::run(), word("container")]);
            out.extend([container.image.clone(), word(cwd), word(script)]);
            out.extend(container.options.iter().cloned());
            out.push(container.image.clone());
        }
        ContainerRuntime::Charliecloud => {
            out.extend([word(CHARLIECLOUD), word("container")]);
            out.extend([container.image.clone(), word(script)]);
            // The host's /tmp is available anyway, and nothing can be bound below it.
            if cwd != "/" && cwd != "/tmp" && !cwd.starts_with("/tmp/") {
                out.extend([word("-b"), format!("{cwd}:{cwd}")]);
            }
            out.extend([word("--cd"), word(cwd)]);
            out.extend(container.options.iter().cloned());
            out.extend([container.image.clone(), word("--")]);
        }
    }
    out.extend(argv);
    out
}

/// Top directories that do not come from the image, each surrounded by blanks.
fn skipped(cwd: &str) -> String {
    let top = cwd.trim_start_matches('/').split('/').next().unwrap_or("");
    let own = match top.is_empty() || SYSTEM.contains(&top) {
        true => "",
        false => top,
    };
    format!(" dev proc sys tmp {own} ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(runtime: ContainerRuntime, cwd: &str, script: &str, argv: &[&str]) -> Vec<String> {
        let container = Container {
            image: "/images/a".into(),
            options: vec!["--hostname".into(), "x".into()],
            apptainer: false,
        };
        let argv = argv.iter().map(|w| (*w).to_owned()).collect();
        let mut out = wrapped(runtime, &container, cwd, script, argv);
        assert_eq!(out[..2], ["/bin/sh", "-c"]);
        out.drain(..4);
        out
    }

    #[test]
    fn each_runtime_gets_the_directory_the_options_and_the_command() {
        let words = of(ContainerRuntime::Bubblewrap, "/data/run", "", &["ls", "-l"]);
        let wanted = [
            "/images/a",
            "",
            " dev proc sys tmp data ",
            "--bind",
            "/data/run",
            "/data/run",
            "--chdir",
            "/data/run",
            "--hostname",
            "x",
            "--",
            "ls",
            "-l",
        ];
        assert_eq!(words, wanted);
        let words = of(ContainerRuntime::Charliecloud, "/data/run", "", &["ls"]);
        let wanted = [
            "/images/a",
            "",
            "-b",
            "/data/run:/data/run",
            "--cd",
            "/data/run",
            "--hostname",
            "x",
            "/images/a",
            "--",
            "ls",
        ];
        assert_eq!(words, wanted);
        let words = of(ContainerRuntime::Podman, "/data/run", "", &["ls"]);
        assert_eq!(
            words,
            ["/data/run", "", "--hostname", "x", "/images/a", "ls"]
        );
        let words = of(ContainerRuntime::Docker, "/data/run", "", &["ls"]);
        assert_eq!(
            words,
            ["/data/run", "", "2", "--hostname", "x", "/images/a", "ls"]
        );
        let words = of(ContainerRuntime::Apptainer, "/data/run", "", &["ls"]);
        assert_eq!(
            words,
            [
                "/images/a",
                "/data/run",
                "",
                "--hostname",
                "x",
                "/images/a",
                "ls"
            ]
        );
        assert!(remover(ContainerRuntime::Podman).is_some());
        assert!(remover(ContainerRuntime::Docker).is_some());
        assert!(remover(ContainerRuntime::Bubblewrap).is_none());
    }

    #[test]
    fn a_script_goes_along_as_text_and_system_directories_stay_the_images() {
        let words = of(
            ContainerRuntime::Bubblewrap,
            "/usr/x",
            "/l/s",
            &["/bin/sh", "-e", "/l/s"],
        );
        assert_eq!(words[1..3], ["/l/s", " dev proc sys tmp  "]);
        assert_eq!(words[words.len() - 4..], ["--", "/bin/sh", "-e", "-c"]);
        let words = of(ContainerRuntime::Bubblewrap, "/", "", &["x"]);
        assert_eq!(words[3..5], ["--chdir", "/"]);
        let container = Container::default();
        let plain = wrapped(
            ContainerRuntime::None,
            &container,
            "/",
            "",
            vec!["x".into()],
        );
        assert_eq!(plain, ["x"]);
    }
}
