//! Variables by which programs written for LSF steer the commands and learn about their job.

use crate::cluster::signal;
use crate::patience::until;
use crate::shell_bed::Shell;
use std::time::Instant;

/// Replaces the section `general` of the cluster's cb.yaml.
fn general(shell: &Shell, lines: &str) {
    let path = shell.cluster.share().join("conf/cb.yaml");
    let text = std::fs::read_to_string(&path).unwrap();
    assert!(!text.contains("\ngeneral:"), "{text}");
    std::fs::write(&path, format!("{text}\ngeneral:\n{lines}")).unwrap();
    shell.ok("cadmin reconfig");
}

/// A job that a limit of pending jobs refuses is sent again, as often as LSB_NTRIES says.
#[test]
fn a_submission_waits_while_too_many_jobs_are_pending() {
    let shell = Shell::new();
    general(&shell, "  max_pend_jobs: 1\n  sub_try_interval: 1\n");
    let first = shell.ok("bsub -H true");
    let id = first.split(['<', '>']).nth(1).unwrap();
    let output = shell.fails("LSB_NTRIES=1 bsub true", 255);
    assert!(!output.contains("Retrying"), "{output}");
    let began = Instant::now();
    let output = shell.fails("LSB_NTRIES=3 bsub true", 255);
    assert!(began.elapsed().as_secs() >= 2, "{output}");
    assert_eq!(
        output.matches(". Retrying in 1 seconds\n").count(),
        2,
        "{output}"
    );
    assert!(
        output.ends_with("(max_pend_jobs). Job not submitted.\n"),
        "{output}"
    );
    let output = shell.fails("LSB_NTRIES=many bsub true", 255);
    assert!(output.contains("LSB_NTRIES: 'many'"), "{output}");
    // sbatch tries as often, in its own form.
    let output = shell.run("LSB_NTRIES=2 sbatch --wrap true");
    let why = "the cluster's limit of 1 pending jobs is reached (max_pend_jobs)";
    assert_eq!(
        output.err,
        format!(
            "sbatch: error: {why}. Retrying in 1 seconds\n\
             sbatch: error: Batch job submission failed: {why}\n"
        )
    );
    assert!(output.code != 0 && output.out.is_empty(), "{}", output.out);
    // An interrupt ends it, and nothing is submitted later.
    let mut waits = shell.command("exec bsub true 2>waits");
    let mut waits = waits.spawn().unwrap();
    let file = shell.cluster.work().join("waits");
    let retries = || std::fs::read_to_string(&file).is_ok_and(|output| output.contains("Retrying"));
    until("the first refusal", retries);
    signal(i32::try_from(waits.id()).unwrap(), "-INT");
    assert!(!waits.wait().unwrap().success());
    // The others go: the same command line succeeds while it waits.
    shell.ok(&format!("(sleep 1; bkill {id}) & bsub true 2>again"));
    assert_eq!(shell.ok("bjobs -a -noheader -o id").lines().count(), 2);
}

/// BSUB_QUIET: nothing about the submission; BSUB_QUIET2: nothing about the end.
#[test]
fn csub_says_what_the_variables_leave() {
    let shell = Shell::new();
    let output = |vars: &str, line: &str| shell.ok(&format!("{vars} {line} 2>&1"));
    assert_eq!(output("BSUB_QUIET=1", "bsub true"), "");
    assert_eq!(
        output("BSUB_QUIET=y", "csub -K true"),
        "<<Job is finished>>\n"
    );
    let all = output("BSUB_QUIET2=y", "csub -K true");
    assert!(
        all.starts_with("Job <") && all.contains("<<Waiting"),
        "{all}"
    );
    assert!(
        all.contains("<<Starting on") && !all.contains("finished"),
        "{all}"
    );
    let both = "BSUB_QUIET= BSUB_QUIET2=";
    assert_eq!(output(both, "bsub -K true"), "");
    assert_eq!(output(both, "bsub -I echo hello"), "hello\n");
    let wrong = shell.fails(&format!("{both} bsub -q nowhere true"), 255);
    assert!(wrong.contains("Job not submitted"), "{wrong}");
}

/// CB_LIMIT_VIEW=1: cqueues shows the queues that the caller may use.
#[test]
fn cqueues_shows_usable_queues_if_asked() {
    let shell = Shell::new();
    let path = shell.cluster.share().join("conf/cb.yaml");
    let text = std::fs::read_to_string(&path).unwrap();
    let more = "\nqueues:\n- {name: closed, users: nobody}\n";
    assert_eq!(text.matches("\nqueues:\n").count(), 1, "{text}");
    std::fs::write(&path, text.replacen("\nqueues:\n", more, 1)).unwrap();
    shell.ok("cadmin reconfig");
    let names = |vars: &str| shell.ok(&format!("{vars} cqueues -noheader -o queue_name"));
    assert!(names("").contains("closed"));
    let usable = names("CB_LIMIT_VIEW=1");
    assert!(
        !usable.contains("closed") && usable.contains("normal"),
        "{usable}"
    );
}
