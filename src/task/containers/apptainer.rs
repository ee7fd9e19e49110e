//! The command that runs a job's container by apptainer, or by singularity where that is installed.
//!
//! Both run without a daemon as the job's user, as children of the job. Owns the shell text. Runs
//! nothing.

use crate::model::APPTAINER_GROUPS;

/// `$1` image, `$2` working directory, `$3` script or empty; then options, image and command.
///
/// The options written here precede the job's own, so that these can replace them. /tmp, the user's
/// home of the password file, /dev, /proc and /sys are the host's by default. The directories of
/// the hosts file and of the warning file are bound instead of the files, because the files change
/// while the job runs. `--mount` takes paths that contain the separators of `--bind`, but
/// singularity before 3.9 does not know it. The variables that mean options of control groups are
/// unset.
pub(super) fn run() -> String {
    let unset = APPTAINER_GROUPS.iter().flat_map(|option| {
        let name = option.trim_start_matches('-').replace('-', "_");
        let name = name.to_uppercase();
        [format!("APPTAINER_{name}"), format!("SINGULARITY_{name}")]
    });
    let unset: Vec<String> = unset.collect();
    format!("unset {}\n{RUN}", unset.join(" "))
}

const RUN: &str = r#"
image=$1 cwd=$2 script=$3 bound=; shift 3
fail() { code=$1; shift; echo "container: $*" >&2; exit "$code"; }
program=$(command -v apptainer || command -v singularity) ||
  fail 127 "this host has neither apptainer nor singularity in the job's PATH"
case $image in /*) [ -e "$image" ] || fail 125 "this host has no image $image";; esac
[ -z "$script" ] || set -- "$@" "$(cat "$script")"
for p in "${LSB_AFFINITY_HOSTFILE%/*}" "${LSB_DJOB_HOSTFILE%/*}" "${CB_WARNING_FILE%/*}" \
  "$TMPDIR" "$HOME" "$cwd"; do
  case $p in /tmp) continue;; /?*) ;; *) continue;; esac
  case $bound in *"|$p|"*) continue;; esac
  bound="$bound|$p|"
  [ -d "$p" ] || continue
  case $p in
    *[:,\\\"]*) p=$(printf '%s\n' "$p" | sed 's/"/""/g')
      set -- --mount "type=bind,\"source=$p\",\"destination=$p\"" "$@";;
    *) set -- --bind "$p:$p" "$@";;
  esac
done
if [ -n "$CUDA_VISIBLE_DEVICES" ] && [ -c /dev/nvidiactl ]; then set -- --nv "$@"; fi
if [ -n "$ROCR_VISIBLE_DEVICES" ] && [ -c /dev/kfd ]; then set -- --rocm "$@"; fi
exec "$program" exec --pwd "$cwd" "$@"
"#;

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::Permissions;
    use std::os::unix::fs::PermissionsExt;
    use std::path::Path;
    use std::process::Command;

    /// Runs the text with programs named `programs` that print their arguments and the job's
    /// variables of control groups.
    fn ran(programs: &[&str], image: &str, dir: &Path) -> (Option<i32>, String) {
        for name in programs {
            let text = format!(
                "#!/bin/sh\necho \"{name}: $APPTAINER_MEMORY$SINGULARITY_PIDS_LIMIT\"\n\
                 printf '<%s>' \"$@\"\n"
            );
            let program = dir.join(name);
            std::fs::write(&program, text).unwrap();
            std::fs::set_permissions(&program, Permissions::from_mode(0o755)).unwrap();
        }
        let cwd = dir.join("a:b,c");
        std::fs::create_dir_all(&cwd).unwrap();
        let out = Command::new("/bin/sh")
            .args(["-c", &run(), "container", image])
            .arg(&cwd)
            .args(["", "--bind", "/x", image, "sh", "-c", "a b"])
            .env_clear()
            .env("PATH", format!("{}:/usr/bin:/bin", dir.display()))
            .env("TMPDIR", dir)
            .env("CB_WARNING_FILE", dir.join("warning"))
            .env("APPTAINER_MEMORY", "1G")
            .env("SINGULARITY_PIDS_LIMIT", "5")
            .output()
            .unwrap();
        let output = [out.stdout, out.stderr].concat();
        (
            out.status.code(),
            String::from_utf8_lossy(&output).into_owned(),
        )
    }

    #[test]
    fn the_jobs_directories_are_bound_and_its_own_options_come_last() {
        let dir = tempfile::tempdir().unwrap();
        let top = dir.path().display();
        let (code, output) = ran(&["apptainer", "singularity"], "/", dir.path());
        let wanted = format!(
            "apptainer: \n<exec><--pwd><{top}/a:b,c><--mount><type=bind,\"source={top}/a:b,c\",\
             \"destination={top}/a:b,c\"><--bind><{top}:{top}><--bind></x></><sh><-c><a b>"
        );
        assert_eq!((code, output), (Some(0), wanted));
    }

    #[test]
    fn singularity_is_used_where_there_is_no_apptainer() {
        let dir = tempfile::tempdir().unwrap();
        let address = "docker://debian:12";
        let (code, output) = ran(&["singularity"], address, dir.path());
        assert_eq!(code, Some(0), "{output}");
        assert!(output.starts_with("singularity: \n<exec>"), "{output}");
        assert!(
            output.ends_with("<docker://debian:12><sh><-c><a b>"),
            "{output}"
        );
        let (code, output) = ran(&["singularity"], "/no/image.sif", dir.path());
        assert!(
            code == Some(125) && output.contains("has no image /no/image.sif"),
            "{output}"
        );
        let dir = tempfile::tempdir().unwrap();
        if !["/usr/bin/apptainer", "/usr/bin/singularity"]
            .iter()
            .any(|p| Path::new(p).exists())
        {
            let (code, output) = ran(&[], "/", dir.path());
            assert!(code == Some(127) && output.contains("neither"), "{output}");
        }
    }
}
