//! Programs that were written for Slurm: their command lines against a real cluster, and what they
//! read out of the answers. `tests/clients/slurm` runs real ones.

use crate::patience::{find_or, until_or};
use crate::shell_bed::Shell;

impl Shell {
    /// Submits as programs do: the id is what follows the known words.
    fn sbatch(&self, line: &str) -> String {
        let out = self.ok(line);
        let id = out.strip_prefix("Submitted batch job ").expect(&out);
        let id = id.strip_suffix('\n').expect("one line").to_owned();
        assert!(id.parse::<u32>().is_ok(), "{id}");
        id
    }

    /// What sacct says of the job alone, once it has ended.
    fn ended(&self, id: &str) -> String {
        let line = format!("sacct -X -n -P -j {id} -o State,ExitCode");
        let over = || {
            let out = self.ok(&line).trim().to_owned();
            let live = ["PENDING", "RUNNING", "SUSPENDED"];
            let lives = out.lines().any(|l| live.iter().any(|s| l.starts_with(s)));
            (!out.is_empty() && !lives).then_some(out)
        };
        find_or(over, || {
            format!("{id}: {}{}", self.ok(&line), self.cluster.logs())
        })
    }

    /// Waits until squeue gives this state.
    fn until_squeue(&self, id: &str, state: &str) {
        let stat = || self.ok(&format!("squeue -h -t all -j {id} -o %T"));
        until_or(
            || stat().trim() == state,
            || format!("{id}: {}{}", stat(), self.cluster.logs()),
        );
    }
}

#[test]
fn a_script_runs_with_its_options_arguments_and_variables() {
    let shell = Shell::new();
    shell.write(
        "s.sh",
        "#!/bin/bash\n#SBATCH --job-name=sim\n#SBATCH -o %x-%j.out\n#SBATCH -n 2 -c 2\n\
         #SBATCH --time=0-1:00 --mem=100M --mail-type=END\n\
         echo \"$@|$SLURM_JOB_ID|$SLURM_JOB_NAME|$SLURM_NTASKS|$SLURM_CPUS_PER_TASK\"\n\
         echo \"$SLURM_NNODES|$SLURM_SUBMIT_DIR|$SLURM_JOB_PARTITION|$SLURM_PROCID|$A\"\n\
         [ \"$SLURM_TMPDIR\" = \"$TMPDIR\" ] && echo tmp\nenv | grep -c SLURM_ARRAY\nexit 0\n",
    );
    let result = shell.run("A=1 sbatch s.sh 'a b' c");
    assert_eq!(
        result.err,
        "sbatch: warning: -notify has no effect here: no mail is sent, this cluster has no mail \
         server in cb.yaml\n"
    );
    let id = result.out.trim().rsplit(' ').next().unwrap().to_owned();
    assert_eq!(result.out, format!("Submitted batch job {id}\n"));
    assert_eq!(shell.ended(&id), "COMPLETED|0:0");
    let dir = shell.cluster.work();
    let dir = dir.canonicalize().unwrap();
    assert_eq!(
        shell.read(&format!("sim-{id}.out")),
        format!(
            "a b c|{id}|sim|2|2\n1|{}|normal|0|1\ntmp\n0\n",
            dir.display()
        )
    );
    let fields = "JobID,JobName,Partition,AllocCPUS,ReqMem,TimelimitRaw,WorkDir";
    let out = shell.ok(&format!("sacct -n -P -j {id} -o {fields}"));
    let lines: Vec<&str> = out.lines().collect();
    assert_eq!(
        lines,
        [
            format!("{id}|sim|normal|4|100M|60|{}", dir.display()),
            format!("{id}.batch|batch||4|||")
        ]
    );
    // A program that failed, one line on the command line, the default output.
    let id = shell.ok("sbatch --parsable --wrap 'echo out; exit 3' -J w");
    let id = id.trim();
    assert_eq!(shell.ended(id), "FAILED|3:0");
    assert_eq!(shell.read(&format!("slurm-{id}.out")), "out\n");
    // Standard input; waiting gives the job's own code.
    let result = shell.run("printf '#!/bin/sh\\nexit 4\\n' | sbatch --wait -o /dev/null");
    assert_eq!(result.code, 4, "{}", result.err);
    // What cannot be honoured is refused, with its line.
    shell.write("bad.sh", "#!/bin/sh\n#SBATCH --licenses=a:1\ntrue\n");
    let result = shell.run("sbatch bad.sh");
    assert_eq!((result.code, result.out.as_str()), (1, ""));
    assert!(
        result
            .err
            .starts_with("sbatch: error: bad.sh:2: --licenses: "),
        "{}",
        result.err
    );
    let result = shell.run("echo true | sbatch");
    assert_eq!(result.code, 1);
    assert!(
        result.err.contains("does not look like a batch script"),
        "{}",
        result.err
    );
    let result = shell.run("sbatch -p nope --wrap true");
    assert_eq!(result.code, 1);
    assert!(
        result
            .err
            .starts_with("sbatch: error: Batch job submission failed: "),
        "{}",
        result.err
    );
    // A command that is not part of this is no name here.
    assert_eq!(shell.run("cb srun true").code, 2);
}

#[test]
fn arrays_count_from_zero_and_dependencies_wait() {
    let shell = Shell::new();
    shell.write(
        "a.sh",
        "#!/bin/sh\n#SBATCH --array=0-2%2\necho \"$SLURM_ARRAY_JOB_ID $SLURM_ARRAY_TASK_ID \
         $SLURM_ARRAY_TASK_COUNT $SLURM_ARRAY_TASK_MIN $SLURM_ARRAY_TASK_MAX\"\n\
         [ $SLURM_ARRAY_TASK_ID != 1 ]\n",
    );
    let first = shell.sbatch("sbatch -H --wrap 'echo first' -o first.out");
    let line = format!("sbatch -d afterok:{first} a.sh");
    let array = shell.sbatch(&line);
    let waits = shell.ok(&format!("squeue -h -j {array} -o '%i %t %r %K'"));
    assert_eq!(waits, format!("{array}_[0-2%2] PD Dependency 0-2%2\n"));
    let each = shell.ok(&format!("squeue -r -h -j {array}_0,{array}_2 -o %i"));
    assert_eq!(each, format!("{array}_0\n{array}_2\n"));
    let after = shell.sbatch(&format!(
        "sbatch -d afterany:{array}_1 --wrap true -o /dev/null"
    ));
    let never = format!("sbatch -d afterok:{array}_1 --kill-on-invalid-dep=yes --wrap true");
    let never = shell.sbatch(&never);
    shell.ok(&format!("cresume {first}"));
    assert_eq!(shell.ended(&after), "COMPLETED|0:0");
    assert_eq!(
        shell.ended(&format!("{array}_0,{array}_2")),
        "COMPLETED|0:0\nCOMPLETED|0:0"
    );
    assert_eq!(shell.ended(&format!("{array}_1")), "FAILED|1:0");
    assert_eq!(shell.ended(&never), "CANCELLED|0:0");
    for n in 0..3 {
        let out = shell.read(&format!("slurm-{array}_{n}.out"));
        assert_eq!(out, format!("{array} {n} 3 0 2\n"));
    }
    // The accounting files know from which index the submitter counts.
    let acct = shell.cluster.share().join("acct");
    let line = format!("grep -rh '\"shift\":1' {} | wc -l", acct.display());
    until_or(|| shell.ok(&line).trim() == "3", || shell.cluster.logs());
    let out = shell.ok(&format!("sacct -n -P -X -j {array} -o JobID,JobIDRaw"));
    let mut ids: Vec<&str> = out.lines().collect();
    ids.sort_unstable();
    let want: Vec<String> = (0..3).map(|n| format!("{array}_{n}|{array}_{n}")).collect();
    assert_eq!(ids, want);
}

#[test]
fn jobs_are_listed_cancelled_and_signalled() {
    let shell = Shell::new();
    let sleep = "--wrap 'trap \"echo usr; exit 0\" USR1; while :; do sleep 0.1; done' -o l.%j";
    let one = shell.sbatch(&format!("sbatch -J one {sleep}"));
    let two = shell.sbatch(&format!("sbatch -J two -t 90 {sleep}"));
    shell.until_squeue(&one, "RUNNING");
    shell.until_squeue(&two, "RUNNING");
    let table = shell.ok("squeue -S i");
    let rows: Vec<Vec<&str>> = table
        .lines()
        .map(|l| l.split_whitespace().collect())
        .collect();
    assert_eq!(
        rows[0].join(" "),
        "JOBID PARTITION NAME USER ST TIME NODES NODELIST(REASON)"
    );
    assert_eq!(
        (rows[1][0], rows[1][1], rows[1][2]),
        (&*one, "normal", "one")
    );
    assert_eq!((rows[1][4], rows[2][0], rows.len()), ("R", &*two, 3));
    let limits = shell.ok("squeue --me -h -S i -o '%i,%l,%T'");
    assert_eq!(
        limits,
        format!("{one},UNLIMITED,RUNNING\n{two},1:30:00,RUNNING\n")
    );
    let json = shell.ok(&format!("squeue --json -j {two}"));
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json["jobs"][0]["job_state"][0], "RUNNING");
    assert_eq!(json["jobs"][0]["time_limit"]["number"], 90);
    // One ends by its own handler, the other is cancelled; both leave squeue.
    assert_eq!(shell.ok(&format!("scancel -s USR1 {one}")), "");
    assert_eq!(shell.ended(&one), "COMPLETED|0:0");
    assert!(shell.read(&format!("l.{one}")).ends_with("usr\n"));
    let result = shell.run(&format!("scancel -v {two}"));
    assert_eq!((result.code, result.out.as_str()), (0, ""));
    assert_eq!(result.err, format!("scancel: Terminating job {two}\n"));
    let uid = shell.ok("id -u");
    let uid = uid.trim();
    assert_eq!(shell.ended(&two), format!("CANCELLED by {uid}|0:0"));
    let steps = shell.ok(&format!("sacct -n -P -j {two} -o JobID,State"));
    assert_eq!(
        steps,
        format!("{two}|CANCELLED by {uid}\n{two}.batch|CANCELLED\n")
    );
    assert_eq!(shell.ok("squeue -h"), "");
    assert_eq!(shell.run(&format!("scancel {two}")).code, 0, "it has ended");
    let result = shell.run("scancel 99999");
    assert_eq!(result.code, 1);
    assert_eq!(
        result.err,
        "scancel: error: Kill job error on job id 99999: Invalid job id specified\n"
    );
    assert_eq!(shell.run("squeue -j 99999").code, 1);
    // An element of a held array that counts from 0.
    let array = shell.sbatch("sbatch -H -a 0-3 -J arr --wrap true -o /dev/null");
    shell.ok(&format!("scancel {array}_0 {array}_[2-3]"));
    let left = shell.ok(&format!("squeue -h -j {array} -o '%i %r'"));
    assert_eq!(left, format!("{array}_[1] JobHeldUser\n"));
    shell.ok("scancel -n arr -t PENDING");
    assert_eq!(shell.ok("squeue -h"), "");
    // Held, released, changed, run again.
    let held = shell.sbatch("sbatch -N 1 -J h --wrap 'scontrol show hostnames; sleep 0.1' -o h.%j");
    assert_eq!(shell.ended(&held), "COMPLETED|0:0");
    let host = shell.read(&format!("h.{held}"));
    assert!(["h1\n", "h2\n"].contains(&host.as_str()), "{host}");
    shell.ok(&format!("scontrol requeuehold {held}"));
    let line = format!("scontrol update JobId={held} TimeLimit=1:00:00 JobName=new");
    assert_eq!(shell.ok(&line), "");
    let show = shell.ok(&format!("scontrol -o show job {held}"));
    assert!(
        show.contains("JobState=PENDING Reason=JobHeldUser"),
        "{show}"
    );
    assert!(
        show.contains(" JobName=new ") && show.contains(" TimeLimit=01:00:00 "),
        "{show}"
    );
    shell.ok(&format!("scontrol release {held}"));
    assert_eq!(shell.ended(&held), "COMPLETED|0:0");
    assert_eq!(shell.run("scontrol show job 99999").code, 1);
    let nodes = shell.ok("scontrol show node h1");
    assert!(nodes.starts_with("NodeName=h1 Arch="), "{nodes}");
    // Hosts.
    let nodes = shell.ok("sinfo -h -p normal -o '%P %a %D %t %C'");
    assert_eq!(nodes, "normal* up 2 idle 0/8/0/8\n");
    assert_eq!(shell.ok("sinfo -h -N -o %N").lines().count(), 2);
}

#[test]
fn csub_reads_lines_for_slurm_and_pbs() {
    let shell = Shell::new();
    shell.write(
        "s.sh",
        "#!/bin/sh\n#SBATCH -J lines\n#SBATCH -n 2\n#SBATCH -o s.%j\n#SBATCH --qos=x\n\
         echo \"$LSB_DJOB_NUMPROC $LSB_JOBNAME ${SLURM_JOB_ID-none}\"\ncd $SLURM_SUBMIT_DIR && pwd\n",
    );
    let result = shell.run("csub -K -J mine s.sh");
    assert_eq!(result.code, 0, "{}", result.err);
    assert!(
        result
            .err
            .starts_with("csub: warning: s.sh: --qos has no effect here: there are no QOS\n"),
        "{}",
        result.err
    );
    let id = crate::cluster::job_id(&result.out).expect("an id");
    let out = shell.read(&format!("s.{id}"));
    assert!(out.contains(&format!("2 mine {id}\n")), "{out}");
    let dir = shell.cluster.work().canonicalize().unwrap();
    assert!(out.contains(&format!("{}\n", dir.display())), "{out}");
    shell.write(
        "p.sh",
        "#!/bin/sh\n#PBS -N pbs\n#PBS -l select=1:ncpus=2,walltime=00:10:00\n#PBS -j oe -o p.out\n\
         cd $PBS_O_WORKDIR && echo \"$LSB_DJOB_NUMPROC $LSB_JOBNAME\"\n",
    );
    shell.ok("csub -K p.sh");
    assert!(shell.read("p.out").contains("2 pbs\n"));
    // Its own lines come first: those of others are named and have no effect.
    shell.write(
        "b.sh",
        "#!/bin/sh\n#SBATCH -n 2\n#BSUB -J b\n#BSUB -o b.out\necho $LSB_DJOB_NUMPROC\n",
    );
    let result = shell.run("csub -K b.sh");
    assert!(
        result
            .err
            .starts_with("csub: warning: b.sh: '#SBATCH -n 2' (line 2) has no effect here\n"),
        "{}",
        result.err
    );
    assert!(shell.read("b.out").contains("\n1\n"));
    shell.write("r.sh", "#!/bin/sh\n#SBATCH --reservation=x\ntrue\n");
    let result = shell.run("csub r.sh");
    assert_eq!((result.code, result.out.as_str()), (2, ""));
    assert!(
        result.err.starts_with("csub: r.sh:2: --reservation: "),
        "{}",
        result.err
    );
}
