//! Programs that were written for LSF: their command lines against a real cluster, and what they
//! read out of the answers. Each client is played by the lines it runs, not by the client itself;
//! `tests/clients/dask` runs a real one.

use crate::patience::{find_or, until, until_or};
use crate::shell_bed::Shell;

impl Shell {
    /// Submits; the line must be alone on standard output. Gives the id.
    fn bsub(&self, line: &str) -> String {
        let out = self.ok(line);
        assert_eq!(out.lines().count(), 1, "{out}");
        let rest = out.strip_prefix("Job <").expect("the line of bsub");
        let (id, rest) = rest.split_once("> is submitted to ").expect(&out);
        assert!(rest.ends_with("queue <normal>.\n"), "{out}");
        id.to_owned()
    }

    /// Waits until `bjobs` gives this state.
    fn until_bjobs(&self, id: &str, state: &str) {
        let stat = || self.ok(&format!("bjobs -a -noheader -o stat {id}"));
        until_or(
            || stat().trim() == state,
            || format!("{id}: {}{}", stat(), self.cluster.logs()),
        );
    }

    /// `KEY = VALUE` lines, split as clients split them.
    fn settings(&self, line: &str, headings: usize) -> Vec<(String, String)> {
        let out = self.ok(line);
        let lines = out.trim().lines().skip(headings);
        lines
            .map(|l| {
                l.trim()
                    .split_once(" = ")
                    .unwrap_or_else(|| panic!("{l:?}"))
            })
            .map(|(key, value)| (key.to_owned(), value.to_owned()))
            .collect()
    }
}

fn value<'s>(settings: &'s [(String, String)], key: &str) -> &'s str {
    let found = settings.iter().find(|(k, _)| k == key);
    found.map_or_else(|| panic!("no {key} in {settings:?}"), |(_, v)| v)
}

#[test]
fn dask_and_parsl_submit_scripts_and_poll_by_id() {
    let shell = Shell::new();
    // dask: the shell's redirection, standard error thrown away, a blank line before directives.
    let script = "#!/usr/bin/env bash\n\n#BSUB -J dask-worker\n#BSUB -e d-%J.err\n#BSUB -o d-%J.out\n\
        #BSUB -q normal\n#BSUB -P \"default\"\n#BSUB -n 1\n#BSUB -R \"span[hosts=1]\"\n#BSUB -M 210\n\
        #BSUB -W 00:30\nJOB_ID=${LSB_JOBID%.*}\necho worker $JOB_ID\n";
    shell.write("w.sh", script);
    let conf = shell.ok("cat $LSF_ENVDIR/lsf.conf");
    assert!(conf.contains("\nLSF_UNIT_FOR_LIMITS=MB\n"), "{conf}");
    let stdin = shell.bsub("bsub< w.sh 2> /dev/null");
    // The file is gone before the job runs.
    let file = shell.bsub("bsub -H w.sh 2>/dev/null; rm w.sh");
    shell.ok(&format!("bresume {file}"));
    for id in [&stdin, &file] {
        shell.until_bjobs(id, "DONE");
        let out = shell.read(&format!("d-{id}.out"));
        assert!(out.contains(&format!("\nworker {id}\n")), "{out}");
    }
    let end = shell.run(&format!("bkill {stdin}"));
    assert_eq!((end.code, end.out.as_str()), (255, ""));
    // parsl: minutes, -n with span[ptile], a poll of two words a line for known ids only.
    shell.write(
        "p.sh",
        "\n#BSUB -W 10\n#BSUB -J parsl.h.block-0.17\n#BSUB -o p.out\n#BSUB -e p.err\n#BSUB -n 2\n\
         #BSUB -R \"span[ptile=1]\"\n\nsleep 1000\n",
    );
    let block = shell.bsub("bsub p.sh");
    shell.until_bjobs(&block, "RUN");
    let poll = shell.run(&format!(
        "bjobs -noheader -o 'jobid stat' {stdin} {block} 999"
    ));
    assert_eq!(poll.code, 0, "some are known");
    let words: Vec<Vec<&str>> = poll
        .out
        .lines()
        .map(|l| l.split_whitespace().collect())
        .collect();
    assert_eq!(words.len(), 2);
    assert!(words.contains(&vec![stdin.as_str(), "DONE"]), "{words:?}");
    assert!(words.contains(&vec![block.as_str(), "RUN"]), "{words:?}");
    assert_eq!(
        shell.ok(&format!("bkill {block}")),
        format!("Job <{block}> is being terminated\n")
    );
    shell.until_bjobs(&block, "EXIT");
    // Whole hosts need a queue that gives them.
    let whole = shell.run("bsub -nnodes 2 true");
    assert_eq!((whole.code, whole.out.as_str()), (255, ""), "{}", whole.err);
    assert!(whole.err.contains("exclusive"), "{}", whole.err);
    assert!(whole.err.starts_with("bsub: "), "{}", whole.err);
    assert!(shell.ok("bjobs -h").contains("Usage: bjobs "));
}

#[test]
fn snakemake_and_toil_find_settings_and_states() {
    let shell = Shell::new();
    // snakemake: settings first; a line without " = " would stop it.
    let mbd = shell.settings("badmin showconf mbd", 1);
    let lim = shell.settings("lsadmin showconf lim", 1);
    let params = shell.settings("bparams -a", 0);
    for settings in [&mbd, &lim, &params] {
        assert_eq!(value(settings, "LSF_UNIT_FOR_LIMITS"), "MB");
        assert_eq!(value(settings, "RESOURCE_RESERVE_PER_TASK"), "N");
    }
    assert!(std::path::Path::new(value(&mbd, "LSB_SHAREDIR")).is_dir());
    let clusters = shell.ok("lsclusters");
    let name = clusters.lines().nth(1).unwrap().split_whitespace().next();
    let lsb = format!(
        "{}/lsbatch/{}/configdir/lsb.params",
        value(&mbd, "LSF_CONFDIR"),
        name.unwrap()
    );
    let lsb = std::fs::read_to_string(lsb).unwrap();
    assert!(lsb.contains("\nDEFAULT_QUEUE=normal\n"), "{lsb}");
    assert_eq!(value(&params, "DEFAULT_QUEUE"), "normal");
    // A name with : = ( ), a float, two -R, one file for both streams.
    let id = shell.bsub(
        "bsub -J 'Snakemake_rule_part:n=1___(0f3a-UUID)' -o s.log -e s.log -env all -P p -q normal \
         -W 5 -n 1 -R rusage[mem=100.0] -R span[hosts=1] -cwd $PWD \"echo a; echo b >&2\" 2>&1",
    );
    shell.until_bjobs(&id, "DONE");
    let log = shell.read("s.log");
    assert!(log.contains("\na\n") && log.contains("\nb\n"), "{log}");
    let poll = shell.ok("bjobs -noheader -o 'jobid stat' -aJ '*0f3a-UUID*'");
    let words: Vec<&str> = poll.split_whitespace().collect();
    assert_eq!(words, [id.as_str(), "DONE"]);
    assert!(
        shell
            .ok("bhist -l -a | grep Project")
            .contains("Project <p>")
    );
    // toil: a relative directory, a command in one word, JSON.
    let id = shell.bsub(
        "bsub -cwd . -J toil_job_1 -R 'select[mem>100MB] rusage[mem=100MB]' -M 100MB -n 1 \
         -o $PWD/t_%J.out.log -e $PWD/t_%J.err.log 'echo x; exit 3'",
    );
    shell.until_bjobs(&id, "EXIT");
    let line =
        format!("bjobs -json -o 'jobid user exit_code stat exit_reason pend_reason' {id} 999");
    let json: serde_json::Value = serde_json::from_str(&shell.ok(&line)).unwrap();
    let (one, other) = (&json["RECORDS"][0], &json["RECORDS"][1]);
    assert_eq!(
        (&one["EXIT_CODE"], &one["STAT"]),
        (&"3".into(), &"EXIT".into())
    );
    assert_eq!(other["JOBID"], "999");
    assert!(other["ERROR"].as_str().unwrap().contains("not found"));
    assert!(
        shell
            .ok(&format!("bjobs -l {id}"))
            .contains("Exited with exit code 3")
    );
}

#[test]
fn nextflow_and_open_ondemand_read_tables() {
    let shell = Shell::new();
    let none = shell.run("bjobs -w");
    assert_eq!((none.code, none.out.as_str()), (0, ""));
    assert_eq!(none.err, "No unfinished job found\n");
    let unknown = shell.run("bjobs 999");
    assert_eq!((unknown.code, unknown.out.as_str()), (255, ""));
    assert_eq!(unknown.err, "Job <999> is not found\n");
    // nextflow: the script on standard input, an array.
    shell.write(
        "n.run",
        "#!/bin/bash\n#BSUB -o /dev/null\n#BSUB -q normal\n#BSUB -n 1\n#BSUB -R \"span[hosts=1]\"\n\
         #BSUB -W 00:10\n#BSUB -M 100MB\n#BSUB -R \"select[mem>=10MB] rusage[mem=10MB]\"\n\
         #BSUB -J \"nf-x_(1)[1-2]\"\nsleep 1000\n",
    );
    let array = shell.bsub("cat n.run | bsub");
    shell.until_bjobs(&format!("'{array}[1]'"), "RUN");
    let table = shell.ok("bjobs -w 2>&1");
    let mut lines = table.lines();
    let head: Vec<&str> = lines.next().unwrap().split_whitespace().collect();
    let place = |name: &str| head.iter().position(|h| *h == name).unwrap();
    let (id_at, stat_at) = (place("JOBID"), place("STAT"));
    let rows: Vec<Vec<&str>> = lines.map(|l| l.split_whitespace().collect()).collect();
    assert_eq!(rows.len(), 2, "{table}");
    let first = rows.iter().find(|r| r[id_at] == format!("{array}[1]"));
    assert_eq!(first.unwrap()[stat_at], "RUN");
    let kill = shell.run(&format!("bkill -d {array}"));
    assert_eq!(kill.code, 0, "{}", kill.err);
    assert!(kill.err.contains("EXIT, not as DONE"), "{}", kill.err);
    shell.until_bjobs(&format!("'{array}[2]'"), "EXIT");
    // Open OnDemand: many options, values out of bsub's own environment, fifteen columns.
    shell.write("o.sh", "#!/bin/bash\necho \"A=$A B=$B\"\n");
    let id = shell.bsub(
        "A=1 B=2 bsub -P proj -cwd $PWD -J 'my job' -q normal -sp 5 -r -W 10 -L /bin/bash -n 1 \
         -env all,A,B -o o.out -e o.err -B -N -u a,b -U res -alloc_flags x -core_isolation 2 \
         -g /g -a mpi < o.sh",
    );
    shell.until_bjobs(&id, "DONE");
    assert!(shell.read("o.out").contains("A=1 B=2"));
    let table = shell.ok(&format!("bjobs -a -w -W {id}"));
    let head: Vec<&str> = table.lines().next().unwrap().split_whitespace().collect();
    assert_eq!(
        head.join(" "),
        "JOBID USER STAT QUEUE FROM_HOST EXEC_HOST JOB_NAME SUBMIT_TIME PROJ_NAME CPU_USED MEM \
         SWAP PIDS START_TIME FINISH_TIME"
    );
    let row: Vec<&str> = table.lines().nth(1).unwrap().split_whitespace().collect();
    // The name alone may hold blanks.
    assert_eq!(
        (row[0], row[2], row.len()),
        (id.as_str(), "DONE", 16),
        "{table}"
    );
    assert_eq!((row[9], row[8].len()), ("proj", "11/25-04:22:59".len()));
    let held = shell.bsub("bsub -H -J held sleep 1000");
    shell.ok(&format!("bresume {held}"));
    shell.until_bjobs(&held, "RUN");
    shell.ok(&format!("bstop {held}"));
    shell.until_bjobs(&held, "USUSP");
    shell.ok(&format!("bkill {held}"));
    shell.until_bjobs(&held, "EXIT");
}

#[test]
fn monitors_get_their_columns() {
    let shell = Shell::new();
    let id = shell.ok("lsid");
    assert!(id.starts_with("Corral "), "{id}");
    assert!(
        id.ends_with("\nMy cluster name is dev\nMy master name is h1\n"),
        "{id}"
    );
    for (line, columns) in [
        (
            "bhosts -noheader -o \"HOST_NAME STATUS JL_U MAX NJOBS RUN SSUSP USUSP RSV delimiter='|'\"",
            9,
        ),
        (
            "bqueues -noheader -o \"QUEUE_NAME PRIO STATUS MAX JL_U JL_P JL_H NJOBS PEND RUN SUSP delimiter='|'\"",
            11,
        ),
        (
            "bhosts -o \"HOST_NAME ngpus ngpus_alloc ngpus_excl_alloc ngpus_shared_alloc ngpus_shared_jexcl_alloc ngpus_excl_avail ngpus_shared_avail delimiter='|'\"",
            8,
        ),
        (
            "lsload -noheader -o \"HOST_NAME:80 status r15s r1m r15m ut pg ls it tmp swp mem delimiter='|'\"",
            12,
        ),
    ] {
        let out = shell.ok(line);
        assert!(out.lines().count() >= 2, "{out}");
        for row in out.lines() {
            assert_eq!(row.split('|').count(), columns, "{line}: {row}");
        }
    }
    let gpus = shell.ok("lsload -gpuload -w");
    let header = gpus.lines().next().unwrap_or_default();
    assert_eq!(header.split_whitespace().count(), 14, "{gpus}");
    let clusters = shell.ok("lsclusters -w");
    let row: Vec<&str> = clusters
        .lines()
        .nth(1)
        .unwrap()
        .split_whitespace()
        .collect();
    assert_eq!(row[..3], ["dev", "ok", "h1"]);
    assert_eq!(row.len(), 6);
    // Rows of two words; a window that a reservation limits has its time in words, as in LSF.
    let slots = shell.ok("bslots");
    let rows: Vec<Vec<&str>> = slots
        .lines()
        .map(|l| l.split_whitespace().collect())
        .collect();
    assert_eq!(rows, [["SLOTS", "RUNTIME"], ["8", "UNLIMITED"]]);
    shell.ok("badmin perfmon start 60");
    let refused = shell.run("badmin perfmon stop");
    assert_eq!((refused.code, refused.out.as_str()), (255, ""));
    let page = shell.ok("badmin perfmon view -json");
    let page: serde_json::Value = serde_json::from_str(page.trim()).expect("an object");
    let records = page["record"].as_array().expect("a list");
    assert_eq!(
        (page["num"].as_u64(), page["period"].as_u64()),
        (Some(records.len() as u64), Some(60))
    );
    for record in records {
        assert!(
            record["name"].is_string() && record["total"].is_u64(),
            "{record}"
        );
    }
    // What is not there is refused by name.
    let refused = shell.run("badmin diagnose 1");
    assert_eq!((refused.code, refused.out.as_str()), (255, ""));
    assert!(refused.err.contains("diagnose"), "{}", refused.err);
    shell.ok("badmin hclose -C maintenance h2");
    assert!(shell.ok("bhosts -w h2").contains("closed_Adm"));
    shell.ok("badmin hopen h2");
}

/// The host is locked until it is unlocked or the time is over.
#[test]
fn hosts_are_locked_and_unlocked() {
    let shell = Shell::new();
    assert_eq!(shell.ok("lsadmin limlock h2"), "Host <h2> is locked\n");
    assert!(shell.ok("bhosts -w h2").contains("closed_Lock"));
    assert!(shell.ok("lsload h2").contains("lockU"));
    shell.ok("lsadmin limunlock h2");
    assert!(!shell.ok("bhosts h2").contains("closed"));
    shell.ok("cadmin lslock -l 2 h2");
    until("the lock ends", || !shell.ok("cload").contains("lockU"));
    let refused = shell.run("badmin lslock -l 0 h2");
    assert_eq!(refused.code, 255);
    assert!(refused.err.contains("-l 0"), "{}", refused.err);
}

/// A portal reads where a job answers; the job says so itself, on the host where it runs.
#[test]
fn a_job_posts_from_inside_and_others_read_it() {
    let shell = Shell::new();
    let id = shell.bsub("bsub 'bpost -d \"http://h:8888/a b\" $LSB_JOBID && sleep 1000'");
    let message = || {
        let output = shell.run(&format!("bread -w {id}"));
        if output.code == 0 {
            return Some(output.out);
        }
        assert_eq!(output.code, 255, "{}", output.err);
        assert!(
            output.err.contains("has no message with index 0"),
            "{}",
            output.err
        );
        None
    };
    let read = find_or(message, || shell.cluster.logs());
    let lines: Vec<&str> = read.lines().collect();
    let words = |n: usize| lines[n].split_whitespace().collect::<Vec<_>>();
    assert_eq!(
        words(0),
        ["JOBID", "MSG_ID", "FROM", "POST_TIME", "DESCRIPTION"]
    );
    assert_eq!(words(1)[..2], [id.as_str(), "0"]);
    assert!(lines[1].ends_with("  http://h:8888/a b"), "{read}");
    // Another index, from outside; the answer means that it is recorded.
    let output = shell.ok(&format!("bpost -i 2 -d 'half done' {id}"));
    assert_eq!(output, format!("Job <{id}> has message 2\n"));
    assert!(shell.ok(&format!("bread -i 2 {id}")).contains("half done"));
    let page = shell.ok(&format!("bjobs -l {id}"));
    assert!(
        page.contains("EXTERNAL MESSAGES:") && page.contains("half done"),
        "{page}"
    );
    let history = shell.ok(&format!("bhist -l {id}")).replace(['\n', ' '], "");
    let line = "ExternalMessage\"halfdone\"waspostedfrom\"";
    assert!(history.contains(line), "{history}");
    let unknown = shell.run("bpost -d x 999999");
    assert_eq!((unknown.code, unknown.out.as_str()), (255, ""));
    assert!(
        unknown.err.contains("No matching job found"),
        "{}",
        unknown.err
    );
    shell.ok(&format!("bkill {id}"));
    shell.until_bjobs(&id, "EXIT");
    assert!(shell.ok(&format!("bread -i 2 {id}")).contains("half done"));
}
