//! Tests the conversion of lines of other batch systems: no cluster needed.

use super::*;
use crate::model::{Stamp, Submission};
use crate::text::command::Script;

/// 2026-11-21 03:07:09 UTC.
const NOW: i64 = 1_795_230_429_000;

fn read_as(text: &str, sbatch: bool) -> Result<ConvertedOptions> {
    let script = Script::parse(text).unwrap();
    let (counts, _) = applicable_lines(&script.foreign_directives, first_command(text));
    let mut context = ConvertContext {
        now_ms: NOW,
        user: "ann",
        name: if sbatch { "s.sh" } else { "" },
        given_name: "",
        cwd: "/w",
        sbatch,
        is_directory: &|path| path == "logs",
        index_shift: &mut |_| Ok(0),
    };
    convert_lines(&counts, "s.sh", &mut context)
}

fn shown(found: &ConvertedOptions) -> String {
    let words = found.options.iter().map(|(id, value)| match value {
        "" => format!("-{id}"),
        value => format!("-{id} {value}"),
    });
    let words: Vec<String> = words.collect();
    words.join("; ")
}

/// Converts lines of one system to csub's options, without the variable of the directory.
fn options(lines: &[&str]) -> String {
    let found = read_as(&lines.join("\n"), false);
    match found {
        Err(fail) => fail.text,
        Ok(found) => {
            let text = shown(&found);
            // Where PBS writes by default.
            let files = ["; -oo .o%J", "; -eo .e%J", "-oo .o%J", "-eo .e%J"];
            let mut text = files.iter().fold(text, |t, file| t.replace(file, ""));
            text.drain(..text.len() - text.trim_start_matches([';', ' ']).len());
            text.truncate(text.trim_end_matches(['\n', ' ', ';']).len());
            text
        }
    }
}

#[test]
fn sbatch_lines_are_options() {
    let cases: &[(&[&str], &str)] = &[
        (
            &["#SBATCH --job-name=a -o %x.%j.out -e err.%j -p q1,q2 -A proj"],
            "-q q1,q2; -P proj; -J a; -eo err.%J; -oo a.%J.out",
        ),
        (&["#SBATCH -n 4 -c 2 -N 2"], "-n 8; -R span[ptile=4]"),
        (&["#SBATCH --ntasks 4"], "-n 4"),
        (&["#SBATCH --mem=4G"], "-R rusage[mem=4096M/host]; -M 4096M"),
        (
            &["#SBATCH -c 4", "#SBATCH --mem-per-cpu=500"],
            "-n 4; -R span[hosts=1]; -R rusage[mem=500M/task]; -M 2000M",
        ),
        (&["#SBATCH -t 1-12:30"], "-W 131400s"),
        (&["#SBATCH -t UNLIMITED"], ""),
        (&["#SBATCH -J s -a 1-9:2%4"], "-J s[1-9:2]%4"),
        (&["#SBATCH -d afterok:12:13"], "-w done(12) && done(13)"),
        (&["#SBATCH -H --exclusive --requeue"], "-H; -r; -x"),
        (
            &["#SBATCH --gres=gpu:2 -C fast&big"],
            "-R rusage[gpu=2/host]; -R select[fast && big]",
        ),
        (
            &["#SBATCH -N 2 -G 4"],
            "-n 2; -R span[ptile=1]; -R rusage[gpu=2/host]",
        ),
        (
            &["#SBATCH -w n[1-2] -x n3"],
            "-n 2; -R span[ptile=1]; -m n[1-2] ~n3",
        ),
        (&["#SBATCH -x n3,n4"], "-m all ~n3 ~n4"),
        (&["#SBATCH --open-mode=append -o f"], "-o f"),
        (&["#SBATCH -o f -e f"], "-oo f"),
        (&["#SBATCH --export=ALL,A=1"], "-env all,A=1"),
        (&["#SBATCH --export=\"A,B='x,y'\""], "-env none,A,B='x,y'"),
        (&["#SBATCH --export=NONE"], "-env none,none"),
        (&["#SBATCH --signal=B:USR1@120"], "-signal B:USR1@120"),
        (&["#SBATCH --signal=10"], "-signal S:USR1@60"),
        (&["#SBATCH -D d --comment 'a b'"], "-Jd a b; -cwd d"),
        (&["#SBATCH -n 2", "#SBATCH -n 3 # why"], "-n 3"),
        (&["#SBATCH -n 2", "true", "#SBATCH -t 5"], "-n 2"),
        (
            &["#SBATCH-n 2", "  # note", "#SBATCH--time=5"],
            "-n 2; -W 300s",
        ),
        (
            &[
                "#SBATCH --mail-type=begin",
                "#SBATCH --mail-type=end,fail",
                "#SBATCH --gres=a:1",
                "#SBATCH --gres=gpu:2",
            ],
            "-notify start done exit; -R rusage[gpu=2/host]",
        ),
        (&["#SBATCH -n 2", "#PBS -q q"], "-n 2"),
    ];
    for (lines, want) in cases {
        assert_eq!(options(lines), *want, "{lines:?}");
    }
}

#[test]
fn what_sbatch_lines_cannot_have_is_refused_by_its_line() {
    for (line, want) in [
        ("--licenses=a:1", "--licenses: it is not available here"),
        ("-L a:1", "--licenses: it is not available here"),
        ("--nonsense", "unknown option '--nonsense'"),
        ("-n 1 word", "'word' is not an option"),
        ("job-name=x", "'job-name=x' is not an option"),
        ("hetjob", "hetjob: a job of several parts"),
        ("-t 1:2:3:4", "--time: '1:2:3:4' is not a time"),
        ("--mem=0", "--mem: 0 is the whole memory"),
        ("-d singleton", "--dependency: 'singleton' is not available"),
        ("-a 0-3", "--array: csub counts from 1"),
        ("-o %N", "--output: %N in a file name"),
        (
            "--gres=gpu:a100:2",
            "--gres: gpu:a100:2: a type cannot be named",
        ),
        ("-N 1-4", "--nodes: a range of hosts"),
        ("-n 0", "--ntasks: '0' is not a number"),
        ("--exclusive=user", "--exclusive: only whole hosts"),
        ("-w n1,n2 -N 3", "--nodelist: name as many hosts"),
        ("-n 4 -G 2", "--gpus: give --nodes"),
        ("--signal=R:USR1", "--signal: R:"),
        ("--signal=NOPE", "--signal: give one of"),
        ("--wrap=x", "--wrap: it is an option of the command line"),
        ("-J a[1]", "--job-name: a job name cannot contain '['"),
        ("--kill-on-invalid-dep=maybe", "write yes or no"),
        ("-C a*2", "--constraint: write names"),
    ] {
        let text = options(&["#!/bin/sh", &format!("#SBATCH {line}")]);
        assert!(
            text.starts_with("s.sh:2: ") && text.contains(want),
            "{line}: {text}"
        );
    }
    assert!(options(&["#SBATCH --mem=1G --mem-per-cpu=1G"]).contains("cannot be given together"));
    assert!(options(&["#SBATCH -n 4 -N 3"]).contains("cannot be divided"));
    assert!(options(&["#SBATCH -J 'a"]).contains("s.sh:1: the quote"));
}

#[test]
fn what_changes_nothing_is_named_once() {
    let found = read_as(
        "#SBATCH --mail-type=END --mail-user me\n#SBATCH -q low\n",
        false,
    );
    let found = found.unwrap();
    assert_eq!(
        found.warning("s.sh").unwrap(),
        "warning: s.sh: --qos has no effect here: there are no QOS"
    );
    assert_eq!(shown(&found), "-notify done exit; -u me");
    assert_eq!(ConvertedOptions::default().warning("s.sh"), None);
}

#[test]
fn jobs_of_sbatch_have_slurms_defaults() {
    let found = read_as("#!/bin/sh\n#SBATCH -a 0-6:3%2\n", true).unwrap();
    assert_eq!(shown(&found), "-n 1; -J s.sh[1-7:3]%2; -oo slurm-%J_%I.out");
    let array = found.facts.array.unwrap();
    assert_eq!((array.min, array.max, array.step), (0, 6, 3));
    assert_eq!((array.count, array.shift), (3, 1));
    let found = read_as("#!/bin/sh\n#SBATCH -n 2 -c 3 -b now+30\n", true).unwrap();
    assert_eq!(
        shown(&found),
        "-n 6; -R span[block=3]; -J s.sh; -oo slurm-%J.out"
    );
    assert_eq!((found.facts.tasks, found.facts.cpus), (2, 3));
    assert_eq!(found.begin, Some(NOW + 30_000));
    let mut job = Submission::default();
    found.complete(&mut job, &found.options);
    assert_eq!(job.spec.begin, Some(Stamp(NOW + 30_000)));
    assert!(!found.facts.of_csub && found.facts.submit_dir == "/w");
}

#[test]
fn pbs_lines_are_options() {
    let cases: &[(&[&str], &str)] = &[
        (
            &["#PBS -N a -q q -A proj", "#PBS -l walltime=01:30:00"],
            "-q q; -P proj; -W 5400s; -oo a.o%J; -eo a.e%J; -J a",
        ),
        (
            &["#PBS -l select=2:ncpus=4:mem=8gb,place=scatter"],
            "-n 8; -R span[ptile=4]; -R rusage[mem=2048M/task]; -M 8192M",
        ),
        (
            &["#PBS -l select=1:ncpus=2:ngpus=1"],
            "-n 2; -R span[hosts=1]; -R rusage[gpu=1/host]",
        ),
        (&["#PBS -l select=2:ncpus=4"], "-n 8; -R span[block=4]"),
        (&["#PBS -l nodes=2:ppn=8"], "-n 16; -R span[ptile=8]"),
        (
            &["#PBS -l nodes=1:ppn=4,mem=4gb"],
            "-n 4; -R span[hosts=1]; -R rusage[mem=1024M/task]; -M 4096M",
        ),
        (&["#PBS -j oe -o h:/d/out -e x"], "-oo /d/out"),
        (&["#PBS -j eo -N a"], "-oo a.e%J; -J a"),
        (&["#PBS -j oe -N a -o logs"], "-oo logs/a.o%J; -J a"),
        (
            &["#PBS -N a -o d/ -e /dev/null"],
            "-oo d/a.o%J; -eo /dev/null; -J a",
        ),
        (
            &["#PBS -N a -J 1-2 -o f -e g.^array_index^"],
            "-oo f.%I; -eo g.%I; -J a[1-2]",
        ),
        (&["#PBS -N a -j oe -d /d"], "-cwd /d; -oo /w/a.o%J; -J a"),
        (
            &["#PBS -W group_list=g,depend=afterok:1,afterany:2 -j oe"],
            "-G g; -w done(1) && ended(2)",
        ),
        (
            &["#PBS -v \"A='x,y',B=1\"", "#PBS -v C=2"],
            "-env A='x,y'; -env B='1'; -env C='2'",
        ),
        (&["#PBS -o out.$PBS_JOBID -e err"], "-oo out.%J; -eo err"),
        (
            &["#PBS -t 1-5:2%2 -N n"],
            "-oo n.o%J.%I; -eo n.e%J.%I; -J n[1-5:2]%2",
        ),
        (&["#PBS -W depend=afterok:12.srv"], "-w done(12)"),
        (&["#PBS -V -v A=1,B -h -rn"], "-env A='1'; -H; -rn"),
    ];
    for (lines, want) in cases {
        assert_eq!(options(lines), *want, "{lines:?}");
    }
    for (line, want) in [
        (
            "-l select=1:ncpus=2+1:ncpus=4",
            "-l: select: chunks of several kinds",
        ),
        (
            "-l select=1:ncpus=2 -l select=2:ncpus=4",
            "-l: select is given twice",
        ),
        (
            "-l nodes=1:ppn=2,ncpus=4",
            "-l: ncpus is given beside nodes",
        ),
        (
            "-l nodes=1:ppn=2+2:ppn=4",
            "-l: nodes: hosts of several kinds",
        ),
        ("-l software=x", "-l: software is not available"),
        ("-I", "-I: csub -I makes a job interactive"),
        ("-Q", "-Q: it is not an option"),
        ("-W umask=22", "-W: umask is not available"),
        ("-J 0-5", "-J: csub counts from 1"),
        ("-h word", "word: it is not an option"),
        ("nodes=1", "nodes=1: it is not an option"),
        ("-N", "-N: its value is missing"),
    ] {
        let text = options(&["#!/bin/sh", &format!("#PBS {line}")]);
        assert!(
            text.starts_with("s.sh:2: ") && text.contains(want),
            "{line}: {text}"
        );
    }
    let found = read_as("#PBS -m abe -M me -k oe\n", false).unwrap();
    assert_eq!(
        found.warning("s.sh").unwrap(),
        "warning: s.sh: -k has no effect here: output goes to its place while the job runs"
    );
    assert_eq!(
        shown(&found),
        "-oo .o%J; -eo .e%J; -notify exit start done exit; -u me"
    );
}

#[test]
fn a_job_of_csub_is_told_what_the_lines_request() {
    let found = read_as("#SBATCH --mem=2G\n#SBATCH -n 4 -c 2 -G 2 -N 2\n", false).unwrap();
    let variable = |name: &str| found.variables.get(name).map(String::as_str);
    assert_eq!(variable("SLURM_MEM_PER_NODE"), Some("2048"));
    assert_eq!(variable("SLURM_GPUS"), Some("2"));
    let mut job = Submission {
        array: "2-8:3".into(),
        ..Submission::default()
    };
    found.mark(&mut job, Some(SBATCH), &found.options);
    let slurm = job.spec.slurm.clone().unwrap();
    assert!(slurm.of_csub && slurm.submit_dir == "/w" && job.spec.pbs.is_none());
    assert_eq!((slurm.tasks, slurm.cpus), (4, 2));
    let array = slurm.array.unwrap();
    assert_eq!(
        (array.min, array.max, array.step, array.count),
        (2, 8, 3, 3)
    );
    found.mark(&mut job, Some(SBATCH), &Default::default());
    assert_eq!(job.spec.slurm.unwrap().tasks, 0);
    let pbs = |line: &str| {
        let found = read_as(&format!("#PBS -l {line}\n"), false).unwrap();
        let mut job = Submission::default();
        found.mark(&mut job, Some(PBS), &found.options);
        let pbs = *job.spec.pbs.unwrap();
        let threads = found.variables.get("OMP_NUM_THREADS").cloned();
        (pbs.cpus, pbs.ranks, threads.unwrap_or_default())
    };
    assert_eq!(pbs("select=2:ncpus=4"), (4, 1, "4".to_owned()));
    let ranks = pbs("select=2:ncpus=4:mpiprocs=2:ompthreads=2");
    assert_eq!(ranks, (4, 2, "2".to_owned()));
    assert_eq!(pbs("nodes=2:ppn=4"), (0, 0, String::new()));
    let mut job = Submission::default();
    found.mark(&mut job, None, &found.options);
    assert_eq!(job, Submission::default());
    let own = pbs::submission_variables("/w", &|name| (name == "HOME").then(|| "/h".to_owned()));
    assert_eq!(
        (own["PBS_O_WORKDIR"].as_str(), own["PBS_O_HOME"].as_str()),
        ("/w", "/h")
    );
}

#[test]
fn a_script_speaks_one_language_before_its_first_command() {
    let text = "#!/bin/sh\n\n# note\n#PBS -q a\ntrue\n#SBATCH -p b\n";
    let script = Script::parse(text).unwrap();
    let (counts, others) = applicable_lines(&script.foreign_directives, first_command(text));
    assert_eq!((counts.len(), counts[0].prefix), (1, PBS));
    assert_eq!(system_of(&counts, &others), Some(PBS));
    assert_eq!(system_of(&[], &others), Some(SBATCH));
    assert_eq!(system_of(&[], &[]), None);
    assert_eq!((others.len(), others[0].line), (1, 6));
    assert_eq!(first_command("#!/bin/sh\n"), usize::MAX);
}
