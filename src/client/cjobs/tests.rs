//! Tests the command with a small published view.

use super::*;
use crate::client::read::test_view::{NOW, TestView, job, row, spec};
use crate::model::{JobKey, PendReason, Stamp};
use crate::record::view::{ArrayRow, Params, QueueRow, Row};
use crate::show::Dates;
use jiff::tz::TimeZone;
use std::sync::Mutex;

/// User 10: a pending job, an array of five with one element running and one done, a finished job.
/// User 20: a running job.
fn bed() -> TestView {
    let bed = TestView::new();
    let mut array = row(JobKey::job(3), 1, JobStat::Pend);
    array.arr = Some(Box::new(ArrayRow {
        all: "1-5".into(),
        waiting: "3-5".into(),
        limit: 2,
        counts: [("RUN", 1), ("DONE", 1)]
            .map(|(w, n)| (w.to_owned(), n))
            .into(),
    }));
    array.why = Some(PendReason::ArrayLimit { limit: 2 });
    bed.publish(&[
        (
            "j0",
            vec![
                spec(1, 10),
                spec(2, 20),
                job(JobKey::job(1), 1, JobStat::Pend),
                job(JobKey::job(2), 2, JobStat::Run),
                Row::Job(Box::new(array)),
                job(JobKey::job(4), 1, JobStat::Exit),
            ],
        ),
        (
            "a3.0",
            vec![
                spec(1, 10),
                job(JobKey::element(3, 1), 1, JobStat::Done),
                job(JobKey::element(3, 2), 1, JobStat::Run),
            ],
        ),
    ]);
    bed
}

#[derive(Debug)]
struct Printed {
    out: String,
    err: Vec<String>,
    exit: Exit,
}

fn ask_on(bed: &TestView, uid: u32, line: &[&str]) -> Result<Printed, Fail> {
    let args: Vec<OsString> = line.iter().map(OsString::from).collect();
    let m = cli::parse(options(), &read::split_json(&args)).expect("a good line");
    let source = bed.source("cjobs", uid);
    let request = parse_line(&m, &source)?;
    let mut ctx = source.ctx();
    ctx.now = Stamp(NOW);
    ctx.dates = Dates::new(TimeZone::UTC);
    let out = Mutex::new(String::new());
    let put = |text: &str| {
        out.lock().expect("one test").push_str(text);
        Ok(())
    };
    let list::Outcome { err, exit } = list::run_at(&source, &request, ctx, &put)?;
    let out = out.into_inner().expect("one test");
    Ok(Printed { out, err, exit })
}

fn ask(uid: u32, line: &[&str]) -> Printed {
    ask_on(&bed(), uid, line).expect("it answers")
}

#[test]
fn own_unfinished_jobs_started_ones_first() {
    let got = ask(10, &[]);
    let want = "\
JOBID   USER    STAT  QUEUE      FROM_HOST   EXEC_HOST   JOB_NAME   SUBMIT_TIME
3[2]    u10     RUN   normal     h1          h1          job3[2]    Nov 21 00:20
1       u10     PEND  normal     h1          -           job1       Nov 21 00:20
3[3]    u10     PEND  normal     h1          -           job3[3]    Nov 21 00:20
3[4]    u10     PEND  normal     h1          -           job3[4]    Nov 21 00:20
3[5]    u10     PEND  normal     h1          -           job3[5]    Nov 21 00:20
";
    assert_eq!(
        (got.out.as_str(), got.err.len(), got.exit),
        (want, 0, Exit::Ok)
    );
}

#[test]
fn ids_show_finished_jobs_and_those_of_others() {
    let got = ask(10, &["-noheader", "-o", "jobid stat", "2", "4", "3[1-3:2]"]);
    assert_eq!(
        got.out,
        "2       RUN\n3[3]    PEND\n3[1]    DONE\n4       EXIT\n"
    );
    assert_eq!(got.exit, Exit::Ok);
}

#[test]
fn an_unknown_id_is_named_and_fails_only_when_alone() {
    let got = ask(10, &["99", "3[9]"]);
    assert_eq!(got.out, "");
    assert_eq!(
        got.err,
        ["Job <99> is not found", "Job <3[9]> is not found"]
    );
    assert_eq!(got.exit, Exit::NotFound);
    let got = ask(10, &["99", "1"]);
    assert_eq!((got.err.len(), got.exit), (1, Exit::Ok));
    let got = ask(10, &["-r", "1"]);
    assert_eq!(
        (got.err, got.exit),
        (vec!["No matching job found".to_owned()], Exit::NotFound)
    );
}

#[test]
fn nothing_found_is_said_on_standard_error_and_is_no_failure() {
    for (line, text) in [
        (&[][..], "No unfinished job found"),
        (&["-p"], "No pending job found"),
        (&["-a", "-J", "zzz"], "No job found"),
    ] {
        let got = ask(77, line);
        assert_eq!((got.out.as_str(), got.exit), ("", Exit::Ok));
        assert_eq!(got.err, [text]);
    }
}

#[test]
fn selectors() {
    let ids = |line: &[&str]| {
        let mut line = line.to_vec();
        line.extend(["-noheader", "-o", "jobid:"]);
        ask(10, &line).out.replace('\n', " ")
    };
    assert_eq!(ids(&["-u", "all"]), "2 3[2] 1 3[3] 3[4] 3[5] ");
    assert_eq!(ids(&["-u", "20"]), "2 ");
    assert_eq!(ids(&["-aJ", "*3*"]), "3[2] 3[3] 3[4] 3[5] 3[1] ");
    assert_eq!(ids(&["-J", "job3[[]x"]), "");
    assert_eq!(ids(&["-d"]), "3[1] 4 ");
    assert_eq!(ids(&["-p", "-J", "job3[4]"]), "3[4] ");
    assert_eq!(ids(&["-r"]), "3[2] ");
    assert_eq!(ids(&["0"]), "3[2] 1 3[3] 3[4] 3[5] ");
}

#[test]
fn reasons_and_arrays() {
    let got = ask(10, &["-p", "3[3]"]).out;
    assert!(
        got.ends_with("\n the array's limit of 2 started elements is reached;\n"),
        "{got}"
    );
    let want = "\
JOBID    ARRAY_SPEC  OWNER   NJOBS PEND DONE  RUN EXIT SSUSP USUSP PSUSP
3        *b3[1-5]%2  u10         5    3    1    1    0     0     0     0
";
    assert_eq!(
        ask(10, &["-A"]).out,
        want.replace("*b3[1-5]%2 ", "job3[1-5]%2")
    );
}

#[test]
fn lsf_json_holds_records_and_errors() {
    let got = ask(10, &["-json", "-o", "jobid stat exit_code", "4", "99"]).out;
    let v: serde_json::Value = serde_json::from_str(&got).expect("JSON");
    assert_eq!((&v["COMMAND"], &v["JOBS"]), (&"cjobs".into(), &2.into()));
    assert_eq!(
        v["RECORDS"][0],
        serde_json::json!({"JOBID":"4","STAT":"EXIT","EXIT_CODE":"1"})
    );
    assert_eq!(v["RECORDS"][1]["ERROR"], "Job <99> is not found");
    let none = ask(10, &["-json", "99"]);
    assert_eq!(none.exit, Exit::NotFound);
    let empty = ask(77, &["-json"]).out;
    let v: serde_json::Value = serde_json::from_str(&empty).expect("JSON");
    assert_eq!(v["RECORDS"], serde_json::json!([]));
}

#[test]
fn json_lines_have_every_job_once() {
    let got = ask(10, &["-a", "--json", "-u", "all"]);
    let ids: Vec<String> = got
        .out
        .lines()
        .map(|l| serde_json::from_str::<serde_json::Value>(l).expect("JSON")["jobid"].to_string())
        .collect();
    assert_eq!(ids.len(), 8, "{ids:?}");
    let arrays = ask(10, &["-A", "--json"]).out;
    assert_eq!(arrays.lines().count(), 1);
}

#[test]
fn elements_may_come_before_their_array() {
    let bed = TestView::new();
    let mut array = row(JobKey::job(3), 1, JobStat::Done);
    array.arr = Some(Box::default());
    bed.publish(&[
        (
            "a3.0",
            vec![spec(1, 10), job(JobKey::element(3, 2), 1, JobStat::Run)],
        ),
        ("j0", vec![spec(1, 10), Row::Job(Box::new(array))]),
    ]);
    let got = ask_on(&bed, 10, &["-noheader", "-o", "jobid name command"]).expect("it answers");
    assert_eq!(got.out, "3[2]    job3[2]    true\n");
}

#[test]
fn others_jobs_are_hidden_where_the_cluster_says_so() {
    let bed = bed();
    bed.put(crate::record::view::PARAMS, &[Params::default()]);
    let got = ask_on(&bed, 10, &["-a", "2"]).expect("it answers");
    assert_eq!(got.err, ["Job <2> is not found"]);
    let got = ask_on(&bed, 10, &["-u", "all", "-r", "-noheader", "-o", "jobid"]).expect("answers");
    assert_eq!(got.out, "3[2]\n");
    let refused = ask_on(&bed, 10, &["-u", "20"]).expect_err("another user's");
    assert_eq!(refused.exit, Exit::Permission);
    assert_eq!(
        ask_on(&bed, 0, &["-u", "20"])
            .expect("root")
            .out
            .lines()
            .count(),
        2
    );
}

#[test]
fn wrong_lines_are_refused() {
    let refused = |line: &[&str]| {
        let fail = ask_on(&bed(), 10, line).expect_err("refused");
        (fail.exit, fail.text)
    };
    let (exit, text) = refused(&["-o", "jobid nonsense"]);
    assert_eq!(exit, Exit::Usage);
    assert!(
        text.starts_with("<nonsense> in the format string is not a valid field name"),
        "{text}"
    );
    assert!(
        refused(&["-WLC"])
            .1
            .contains("option -WLC is not available")
    );
    assert!(refused(&["-WL", "-l"]).1.contains("-WL adds a column"));
    let (_, text) = refused(&["12x"]);
    assert_eq!(text, "'12x' is not a job ID. Give 123, 123[4] or 0 for all");
    let (_, text) = refused(&["abc"]);
    assert!(text.ends_with("to select by name use -J abc"), "{text}");
    let (_, text) = refused(&["9999999999"]);
    assert!(text.contains("is not a job ID: "), "{text}");
    assert!(refused(&["-json", "--json"]).1.contains("exclude"));
    let bed = bed();
    bed.put(
        crate::record::view::QUEUES,
        &[QueueRow {
            name: "normal".into(),
            ..QueueRow::default()
        }],
    );
    let fail = ask_on(&bed, 10, &["-q", "norml"]).expect_err("refused");
    assert_eq!(fail.text, "norml: no such queue; did you mean \"normal\"?");
}

#[test]
fn without_a_cluster_it_says_so() {
    let dir = tempfile::tempdir().expect("a directory");
    let fail = ask_on(&TestView { dir }, 10, &[]).expect_err("no view");
    assert_eq!(fail.exit, Exit::System);
    assert!(fail.text.contains("no cluster in "), "{}", fail.text);
}

#[test]
fn where_others_are_hidden_administrators_see_those_they_administer() {
    let sees = |params: Params, queue: &str| {
        let bed = bed();
        let params = Params {
            view_all_jobs: false,
            ..params
        };
        bed.put(crate::record::view::PARAMS, &[params]);
        let queue = QueueRow {
            name: "normal".into(),
            administrators: vec![queue.to_owned()],
            ..QueueRow::default()
        };
        bed.put(crate::record::view::QUEUES, &[queue]);
        ask_on(&bed, 77, &["-u", "all", "-noheader", "-o", "jobid"])
            .map(|output| output.out.lines().any(|id| id.trim() == "2"))
    };
    let bosses = ("bosses".to_owned(), vec!["u77".to_owned()], String::new());
    let group = |admin: &str| Params {
        user_groups: vec![
            ("lab".to_owned(), vec!["u20".to_owned()], admin.to_owned()),
            bosses.clone(),
        ],
        ..Params::default()
    };
    let cluster = Params {
        administrators: vec!["bosses".into()],
        ..group("")
    };
    assert!(!sees(group(""), "").unwrap(), "a stranger");
    assert!(sees(group("bosses"), "").unwrap(), "of a group");
    assert!(sees(group(""), "u77").unwrap(), "of the queue");
    assert!(sees(cluster, "").unwrap(), "of the cluster");
}

#[test]
fn golden_output() {
    use crate::client::read::test_cluster;
    let bed = test_cluster::cluster();
    test_cluster::compare(
        "cjobs",
        &[
            "",
            "-a -u all",
            "-w -u all",
            "-r -WL -WP -WF",
            "-p",
            "-s",
            "-A",
            "-l 2 6",
            "-l 3",
            "-l 5",
            "-UF 1",
            "-o 'jobid stat exec_host delimiter=|' -u all",
            "-json 2",
        ],
        |words| ask_on(&bed, 10, words).expect("it answers").out,
    );
}
