//! Converting options to submissions, bad input, packs: no cluster needed.

use super::*;
use crate::model::{Submission, WarnedProcesses};

/// The options and job of a command line; nothing is sent.
fn read_only(words: &[&str], context: &ParseContext<'_>) -> Result<(Submission, JobOptions)> {
    let table = Table::new(options::csub());
    let words: Vec<String> = words.iter().map(|w| (*w).to_owned()).collect();
    let split = table.split(&words).map_err(|e| Fail::usage(e.0))?;
    let options = JobOptions::from_split(&table, &split);
    let mut job = spec::submission(&options, context)?;
    job.command = spec::command_line(&split);
    spec::check_command(&job.command)?;
    Ok((job, options))
}

fn here() -> ParseContext<'static> {
    ParseContext {
        now_ms: 1_800_000_000_000,
        cwd: Path::new("/w"),
        umask: 0o22,
        host: "h1",
        default_queue: "",
        default_project: "",
        unit: &|| Unit::G,
    }
}

fn read(words: &[&str]) -> Result<(Submission, JobOptions)> {
    read_only(words, &here())
}

fn job(words: &[&str]) -> Submission {
    read(words)
        .unwrap_or_else(|e| panic!("{words:?}: {}", e.text))
        .0
}

#[test]
fn the_command_is_what_follows_the_options() {
    let got = job(&["-q", "a b", "-J", "n", "echo", "-n", "x y", "|", "cat"]);
    assert_eq!(got.command, "echo -n x y | cat");
    assert_eq!(got.spec.queue, "a b");
    assert_eq!(got.name, "n");
    assert_eq!(job(&["--", "-odd"]).command, "'-odd'");
    let exact = job(&["-n", "2", "--", "echo", "a  b", "$HOME", "*"]);
    assert_eq!(exact.command, "'echo' 'a  b' '$HOME' '*'");
    assert_eq!(job(&["prog", "--", "a  b"]).command, "prog -- a  b");
}

/// Options, and what the long page of cjobs shows of them. It does not show the environment.
const ON_THE_PAGE: &[(&[&str], &str)] = &[
    (&["-q", "night"], "Queue <night>"),
    (&["-app", "cfd"], "Application <cfd>"),
    (&["-P", "flow"], "Project <flow>"),
    (&["-G", "g1"], "User Group <g1>"),
    (&["-sp", "7"], "Job Priority <7>"),
    (&["-Jd", "a note"], "JOB DESCRIPTION: a note"),
    (&["-n", "2,5"], "2 to 5 Slot(s) Requested"),
    (
        &["-R", "rusage[mem=5]"],
        "Requested Resources <rusage[mem=5]>",
    ),
    (&["-m", "h1+2 h2"], "Specified Hosts <h1+2 h2>"),
    (&["-x"], "Exclusive Execution"),
    (&["-r"], "Re-runnable"),
    (&["-orphan", "kill"], "Orphan Policy <kill>"),
    (&["-b", "12:31:8:00"], "Specified Start Time <"),
    (&["-t", "12:31:9:00"], "Specified Termination Time <"),
    (&["-start-timeout", "5"], "Ends Unless Started By <"),
    (&["-w", "ended(9)"], "Dependency Condition <ended(9)>"),
    (&["-W", "90"], "RUNLIMIT 90.0 min"),
    (&["-c", "20"], "CPULIMIT 20.0 min"),
    (&["-M", "2G"], "MEMLIMIT 2G"),
    (&["-v", "3G"], "SWAPLIMIT 3G"),
    (&["-p", "40"], "PROCESSLIMIT 40"),
    (&["-F", "10"], "FILELIMIT 10K"),
    (&["-D", "20"], "DATALIMIT 20K"),
    (&["-S", "30"], "STACKLIMIT 30K"),
    (&["-C", "40"], "CORELIMIT 40K"),
    (&["-i", "in"], "Input File <in>"),
    (&["-o", "out"], "Output File <out>"),
    (&["-oo", "out"], "Output File (overwrite) <out>"),
    (&["-e", "err"], "Error File <err>"),
    (&["-no-report", "-o", "out"], "No Job Report"),
    (&["-cwd", "/data"], "CWD </data>"),
    (&["-L", "/bin/ksh"], "Login Shell </bin/ksh"),
    (&["-N", "-u", "a@b"], "Mail <done exit to a@b>"),
    (
        &["-rnc", "./grown"],
        "Resize Notification Command <./grown>",
    ),
    (&["-E", "./pre"], "Pre-execute Command <./pre>"),
    (&["-Ep", "./post"], "Post-execute Command <./post>"),
    (&["-f", "a > b"], "Copy Files </w/a > b>"),
    (&["-k", "/ck 10"], "Checkpoints </ck 10>"),
    (
        &["-Q", "30 EXCLUDE(31)"],
        "Requeue Exit Values <30 EXCLUDE(31)>",
    ),
    (&["-retries", "2"], "Retries <2>"),
    (&["-signal", "USR1@60"], "Warning <USR1> 60 seconds"),
    (&["-launch", "tasks"], "Launch <tasks>"),
    (&["-di", "/img"], "/img"),
    (
        &["-Si", "a.sif", "-Sb", "/d:/e:ro", "-So", "--nv"],
        "Container </w/a.sif>, Container Options <--bind /d:/e:ro --nv>",
    ),
];

#[test]
fn options_are_on_the_long_page_of_their_job() {
    use crate::show::job::samples;
    let ctx = samples::ctx();
    let row = samples::pending();
    let shown = |spec: &crate::model::Spec| {
        let mut page = String::new();
        crate::show::job_long::put(&mut page, &samples::view(&ctx, spec, &row, None), true);
        page.split_whitespace().collect::<Vec<_>>().join(" ")
    };
    for (words, wanted) in ON_THE_PAGE {
        let page = shown(&job(&[words, &["true"][..]].concat()).spec);
        assert!(page.contains(wanted), "{words:?}: {page}");
    }
    // The host of the leader has the copy of the input of -is.
    let spec = crate::model::Spec {
        stdin_blob: "0".repeat(64),
        ..job(&["true"]).spec
    };
    assert!(shown(&spec).contains("Copied Input File"));
}

#[test]
fn whole_hosts_are_slots_that_exclude_others() {
    let spec = job(&["-nnodes", "3", "-R", "rusage[mem=100.0]", "x"]).spec;
    assert_eq!((spec.min, spec.max, spec.exclusive), (3, 3, true));
    assert_eq!(spec.res_req, "rusage[mem=100] span[ptile=1]");
    for bad in [
        &["-nnodes", "2", "-n", "2", "x"][..],
        &["-nnodes", "0", "x"],
        &["-nnodes", "2,3", "x"],
        &["-nnodes", "2", "-R", "span[hosts=1]", "x"],
    ] {
        assert!(read(bad).is_err(), "{bad:?}");
    }
}

#[test]
fn a_warning_has_a_signal_and_a_time() {
    let warn = |words: &[&str]| {
        let words = [words, &["true"]].concat();
        let warn = read(&words).map(|(job, _)| job.spec.warn);
        let warn = warn.map(|w| w.map(|w| (w.signal, w.before_s)));
        warn.map_err(|e| e.text)
    };
    assert_eq!(
        warn(&["-wa", "SIGUSR1", "-wt", "1:30"]),
        Ok(Some((10, 5400)))
    );
    assert_eq!(warn(&["--signal", "USR2@600"]), Ok(Some((12, 600))));
    assert_eq!(warn(&["--signal", "none@1"]), Ok(Some((0, 1))));
    let to = |words: &[&str]| {
        let words = [words, &["true"]].concat();
        read(&words).ok().unwrap().0.spec.warn.unwrap().to
    };
    assert_eq!(to(&["--signal", "USR2@600"]), WarnedProcesses::All);
    assert_eq!(to(&["--signal", "B:USR2@600"]), WarnedProcesses::Shell);
    assert_eq!(to(&["--signal", "S:USR2@600"]), WarnedProcesses::Steps);
    assert_eq!(warn(&[]), Ok(None));
    for bad in [
        &["-wa", "USR1"][..],
        &["-wt", "5"],
        &["-wa", "CHKPNT", "-wt", "5"],
        &["-wa", "KILL", "-wt", "5"],
        &["-wa", "USR1", "-wt", "0"],
        &["--signal", "USR1"],
        &["--signal", "USR1@0"],
        &["--signal", "USR1@86401"],
        &["--signal", "USR1@5", "-wa", "USR1"],
    ] {
        assert!(warn(bad).is_err(), "{bad:?}");
    }
}

#[test]
fn every_option_reaches_its_field() {
    let got = job(&[
        "-J",
        "a[1-4:2]%3",
        "-Jd",
        "text",
        "-P",
        "p",
        "-g",
        "/a/b.1",
        "-sp",
        "7",
        "-n",
        "2,4",
        "-m",
        "h1+2 h2",
        "-x",
        "-r",
        "-H",
        "-W",
        "1:30",
        "-c",
        "10",
        "-M",
        "2",
        "-v",
        "512M",
        "-p",
        "9",
        "-F",
        "1",
        "-C",
        "0",
        "-i",
        "in",
        "-oo",
        "out.%J",
        "-e",
        "err",
        "-cwdc",
        "sub/./d",
        "-w",
        "done(12)&&ended(13)",
        "-key",
        "k1",
        "-rn",
        "cmd",
    ]);
    let spec = &got.spec;
    assert_eq!((got.name.as_str(), got.array.as_str()), ("a", "1-3:2"));
    assert_eq!(
        (got.array_limit, got.hold, got.key.as_str()),
        (3, true, "k1")
    );
    assert_eq!((spec.min, spec.max, spec.priority), (2, 4, 7));
    assert_eq!(
        (spec.limits.run_s, spec.limits.cpu_s),
        (Some(5400), Some(600))
    );
    assert_eq!(spec.limits.mem_b, Some(2 << 30), "the cluster's unit");
    assert_eq!(spec.limits.swap_b, Some(512 << 20));
    assert_eq!(
        (spec.limits.file_b, spec.limits.core_b),
        (Some(1024), Some(0))
    );
    assert!(spec.exclusive && !spec.rerunnable, "-rn was said last");
    assert_eq!((spec.stdout.as_str(), spec.stdout_over), ("out.%J", true));
    assert_eq!((spec.stderr.as_str(), spec.stderr_over), ("err", false));
    assert_eq!((spec.cwd.as_str(), spec.cwd_create), ("/w/sub/d", true));
    assert_eq!(spec.depend, "done(12) && ended(13)");
    assert_eq!((spec.umask, spec.sub_host.as_str()), (0o22, "h1"));
}

#[test]
fn memory_for_short_reserves_and_limits() {
    let got = job(&["-mem", "1500K", "x"]);
    assert_eq!(got.spec.limits.mem_b, Some(1500 << 10));
    assert_eq!(got.spec.res_req, "rusage[mem=2M]");
    let got = job(&["-R", "mem>10", "-R", "rusage[swp=5]", "x"]);
    assert_eq!(got.spec.res_req, "select[mem > 10] rusage[swp=5]");
    let got = job(&["-mem", "1G", "-M", "2G", "x"]);
    assert_eq!(got.spec.limits.mem_b, Some(2 << 30), "-M wins as the limit");
    let got = job(&["-mem", "1G", "-gpu", "num=2:mode=shared", "x"]);
    assert_eq!(got.spec.res_req, "rusage[mem=1024,gpu=2/host]");
}

#[test]
fn bad_input_is_refused_before_anything_is_sent() {
    let long = "x".repeat(300_000);
    let cases: &[(&[&str], &str)] = &[
        (&[], "no command"),
        (&["  "], "no command"),
        (
            &["-cwd", "/tmp/%J", "x"],
            "-cwd: %J and %I are not replaced",
        ),
        (
            &["-cwdc", "run_%I", "x"],
            "-cwdc: %J and %I are not replaced",
        ),
        (&["-n", "0", "x"], "-n"),
        (&["-n", "999999999", "x"], "-n"),
        (&["-n", "4,2", "x"], "less than"),
        (&["-n", "+4", "x"], "-n"),
        (&["-n", "1e3", "x"], "-n"),
        (&["-J", "a[1-", "x"], "-J"),
        (&["-J", "a[5-1]", "x"], "-J"),
        (&["-J", "a[1-9:0]", "x"], "-J"),
        (&["-J", "a[0]", "x"], "-J"),
        (&["-J", "a[1]%0", "x"], "-J"),
        (&["-J", "a\nb", "x"], "-J"),
        (&["-J", "../x", "x"], "-J"),
        (&["-J", "-rf", "x"], "-J"),
        (&["-J", "   ", "x"], "-J"),
        (&["-J", &long[..600], "x"], "-J"),
        (&["-Jd", &long[..5000], "x"], "-Jd"),
        (&["-W", "0", "x"], "-W"),
        (&["-W", "-5", "x"], "-W"),
        (&["-W", "99999999999:00", "x"], "-W"),
        (&["-W", "1:60:00", "x"], "-W"),
        (&["-W", "10/", "x"], "-W"),
        (&["-G", "", "x"], "-G"),
        (&["-g", "a/b", "x"], "-g: a job group starts with /"),
        (&["-g", "/a b", "x"], "-g: ' ' is not allowed in a name"),
        (&["-rnc", " ", "x"], "no command"),
        (&["-M", "0", "x"], "above 0"),
        (&["-M", "-1", "x"], "-M"),
        (&["-M", "1Q", "x"], "-M"),
        (&["-w", "done(", "x"], "-w"),
        (&["-w", "", "x"], "-w"),
        (&["-q", "", "x"], "-q"),
        (&["-q", "a/b", "x"], "-q"),
        (&["-sp", "0", "x"], "-sp"),
        (&["-p", "18446744073709551616", "x"], "-p"),
        (&["-b", "25:00", "x"], "-b"),
        (&["-t", "soon", "x"], "-t"),
        (&["-o", "", "x"], "-o"),
        (&["-L", "bash", "x"], "-L"),
        (&["-key", "", "x"], "-key"),
        (&["-R", "select[mem>", "x"], "-R"),
        (&["-R", "rusage[mem=-1]", "x"], "-R"),
        (&["-R", "rusage[mem=1e999]", "x"], "-R"),
        (&["-R", &long, "x"], "-R"),
        (&["-R", &"(".repeat(10_000), "x"], "-R"),
        (&["-R", "span[hosts=0]", "x"], "-R"),
        (&["-R", "same[]", "x"], "-R"),
        (&["-R", "4{", "x"], "-R"),
        (&["-R", "span[hosts=1]", "-R", "span[ptile=2]", "x"], "-R"),
        (&["-IS", "x"], "-IS is not implemented"),
        (&["-freq", "1", "x"], "-freq is not implemented"),
        (
            &["-gpu", "gmodel=x", "x"],
            "-gpu: gmodel is not implemented",
        ),
        (&["--nonsense", "x"], "unknown option"),
    ];
    for (words, want) in cases {
        let fail = read(words).expect_err(&format!("{words:?}"));
        assert!(fail.text.contains(want), "{words:?}: {}", fail.text);
        assert_eq!(fail.exit, Exit::Usage, "{words:?}");
    }
}

#[test]
fn the_command_line_wins_over_the_script() {
    let table = Table::new(options::csub());
    let options = |line: &str| {
        let words: Vec<String> = line.split(' ').map(str::to_owned).collect();
        JobOptions::from_split(&table, &table.split(&words).unwrap())
    };
    let script = options("-o a -q s -R r1 -R r2 -env A=1 -n 2");
    let both = options("-oo b -R r3 -env A=2").overriding(script);
    assert_eq!((both.get("o"), both.get("oo")), (None, Some("b")));
    assert_eq!((both.get("q"), both.get("n")), (Some("s"), Some("2")));
    assert_eq!(both.all("R").collect::<Vec<_>>(), ["r3"]);
    assert_eq!(both.all("env").collect::<Vec<_>>(), ["A=1", "A=2"]);
}

#[test]
fn the_environment_option_has_two_spellings() {
    for spelling in ["-env", "-ENV", "--env"] {
        let options = read(&[spelling, "none", "x"]).unwrap().1;
        assert_eq!(
            options.all("env").collect::<Vec<_>>(),
            ["none"],
            "{spelling}"
        );
    }
}

#[test]
fn default_queues_come_from_the_environment() {
    let mut context = here();
    context.default_queue = "night long";
    context.default_project = "pj";
    let got = read_only(&["x"], &context).unwrap().0;
    assert_eq!(
        (got.spec.queue.as_str(), got.spec.project.as_str()),
        ("night long", "pj")
    );
}

fn site() -> Site {
    Site {
        conf: "/c".into(),
        share: "/s".into(),
        host: "h1".into(),
        local: None,
        unsafe_mount: false,
        servers: None,
        esubs: None,
    }
}

fn filled(text: &str, common: &[&str]) -> (Pack, u64) {
    let table = Table::new(options::csub());
    let words: Vec<String> = common.iter().map(|w| (*w).to_owned()).collect();
    let common = JobOptions::from_split(&table, &table.split(&words).unwrap());
    let mut request = Outgoing::new(&site(), RequestHead::default()).unwrap();
    let pack = pack::fill(text, &table, &common, &here(), &mut request).unwrap();
    (pack, request.len())
}

#[test]
fn a_pack_lists_its_wrong_lines_and_sends_the_others() {
    let text = "# head\n-n 2 a\n\n-n x b\n-J y c 'd e'\n-K f\n-q\nlast\n";
    let (pack, sent) = filled(text, &["-q", "night"]);
    assert_eq!(pack.lines, [2, 5, 8]);
    assert_eq!(
        pack.skipped.iter().map(|w| w.0).collect::<Vec<_>>(),
        [4, 6, 7]
    );
    assert_eq!(sent, 3);
}

#[test]
fn a_pack_is_reported_by_line_or_in_ranges() {
    let run = |line, id, n| IdRun {
        line,
        id,
        n,
        queue: "q".into(),
        default: line == 1,
        known: false,
        t: 0,
    };
    let mut ack = Ack {
        tok: crate::model::Token(1),
        ok: true,
        error: String::new(),
        ids: vec![run(1, 10, 2), run(5, 12, 1)],
        results: Vec::new(),
        more: 0,
        retry_s: 0,
    };
    let mut pack = Pack {
        no_effect: Default::default(),
        missing: None,
        lines: vec![1, 3, 5],
        skipped: vec![(4, "bad\n  x".into())],
    };
    let got = report_pack(&pack, Some(&ack), false);
    assert_eq!(
        got.out,
        "Line#1 Job <10> is submitted to default queue <q>.\n\
         Line#3 Job <11> is submitted to default queue <q>.\n\
         Line#5 Job <12> is submitted to queue <q>.\n"
    );
    assert_eq!(got.err, "Line#4: bad. Job not submitted.\n  x\n");
    assert_eq!(got.exit, Exit::Usage);
    pack.lines = (1..=100).collect();
    pack.skipped.clear();
    ack.ids = vec![run(1, 10, 100)];
    let got = report_pack(&pack, Some(&ack), false);
    assert_eq!(
        got.out,
        "Line#1-100 Jobs <10-109> are submitted to default queue <q>.\n"
    );
    assert_eq!(got.exit, Exit::Ok);
    assert_eq!(
        report_pack(&pack, Some(&ack), true).out.lines().count(),
        100
    );
}
