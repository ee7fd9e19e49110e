//! Golden output, selection and refusals of sacct: no cluster needed.

use super::*;
use crate::client::read::test_cluster;
use crate::client::read::test_view::{NOW, TestView};
use crate::model::TermReason;
use crate::record::acct::HostSlots;
use crate::record::frame;
use crate::record::header::{FileKind, Header};

/// A cluster with jobs in the view and older ones in an accounting file.
fn bed() -> TestView {
    let bed = test_cluster::cluster();
    let doc =
        "{\"format\":1,\"cluster\":\"c\",\"name\":\"c1\",\"service_uid\":0,\"service_gid\":0}";
    std::fs::write(bed.dir.path().join("cluster"), doc).unwrap();
    let record = |id: u32, idx: u32| {
        let end = NOW - 7_200_000;
        AttemptRecord {
            j: JobKey { id, idx },
            at: 1,
            mark: id,
            uid: 10,
            user: "u10".into(),
            queue: "normal".into(),
            project: "weather".into(),
            name: "old".into(),
            command: "sleep 10".into(),
            submit: end - 100_000,
            dispatch: end - 61_000,
            start: end - 60_000,
            end,
            hosts: vec![HostSlots("n1".into(), 2), HostSlots("n2".into(), 1)],
            code: Some(0),
            cpu_ms: 61_500,
            maxmem_kb: 2048,
            mem_b: Some(4 << 30),
            run_s: Some(3600),
            ..AttemptRecord::default()
        }
    };
    let ended = |id, reason, sig| AttemptRecord {
        reason,
        sig,
        code: None,
        ..record(id, 0)
    };
    let records = [
        record(101, 0),
        ended(102, TermReason::RunLimit, 15),
        ended(103, TermReason::Owner, 15),
        ended(104, TermReason::MemLimit, 9),
        ended(105, TermReason::None, 9),
        AttemptRecord {
            code: Some(3),
            ..record(106, 0)
        },
        AttemptRecord {
            shift: 1,
            ..record(107, 1)
        },
        AttemptRecord {
            requeued: true,
            reason: TermReason::Requeue,
            ..record(108, 0)
        },
        AttemptRecord {
            at: 2,
            ..record(108, 0)
        },
        AttemptRecord {
            uid: 20,
            user: "u20".into(),
            ..record(109, 0)
        },
    ];
    let mut out = Vec::new();
    frame::write(&mut out, 0, &Header::new(FileKind::Acct, "c", 1, 1)).unwrap();
    for (n, record) in records.iter().enumerate() {
        frame::write(&mut out, n as u64 + 1, record).unwrap();
    }
    let path = bed.dir.path().join("acct/2026-11/000001.0001.yaml");
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(&path, out).unwrap();
    bed
}

fn ask(bed: &TestView, words: &[&str]) -> Result<String> {
    let m = command_line::parsed(options(), words);
    let mut out = String::new();
    let at = (NOW, &TimeZone::UTC);
    let warnings = show(&m, &bed.source("sacct", 10), at, &mut |text| {
        out.push_str(text);
        Ok(())
    })?;
    assert_eq!(warnings, [""; 0]);
    Ok(out)
}

#[test]
fn golden_output() {
    let bed = bed();
    let lines = [
        "",
        "-X -P -o JobID,State,ExitCode,Elapsed,ElapsedRaw,AllocCPUS,NNodes,NodeList",
        "-j 101,104,105 -p -o JobID,JobIDRaw,JobName,User,UID,State,ExitCode,DerivedExitCode,MaxRSS",
        "-j 101 -n -P -o Submit,Start,End,CPUTime,CPUTimeRAW,TotalCPU,ReqMem,Timelimit,TimelimitRaw",
        "-j 4 -X -n -P -o JobID,State,WorkDir,Cluster,QOS,AllocTRES,ReqTRES,Planned,Restarts",
        "-j 107_0 -X -n -o JobID%-10,State",
        "-a -X -n -b -s CA,TO",
        "-j 108 -D -X -n -b",
        "-j 108 -X -n -P -o JobID,State,Restarts --delimiter=,",
        "-a -X -n -b -S 03:00",
        "-X -n -P -o JobID --name old -A weather -r normal -N n2 -E now-2hours",
        "-j 1 -n",
        "--helpformat",
        "--json -j 101,102,107",
        "--json -X -j 4",
        "--json -j 1",
    ];
    test_cluster::compare("sacct", &lines, |words| ask(&bed, words).unwrap());
}

#[test]
fn users_see_their_own_jobs_unless_they_ask_for_others() {
    let bed = bed();
    let ids = |words: &[&str]| {
        let words = [words, &["-X", "-n", "-P", "-o", "JobID"]].concat();
        let out = ask(&bed, &words).unwrap();
        out.lines().map(str::to_owned).collect::<Vec<_>>()
    };
    let own = ids(&[]);
    assert!(own.contains(&"101".to_owned()) && !own.contains(&"109".to_owned()));
    assert!(ids(&["-a"]).contains(&"109".to_owned()));
    assert_eq!(ids(&["-u", "u20", "-S", "0101"]), ["109", "2"]);
    assert_eq!(ids(&["-j", "109"]), ["109"]);
    assert_eq!(ids(&["-j", "999"]), [""; 0]);
}

#[test]
fn what_is_not_there_is_refused() {
    let bed = bed();
    let fail = |words: &[&str]| ask(&bed, words).unwrap_err().text;
    assert!(fail(&["-o", "Nope"]).contains("Invalid field requested: \"Nope\""));
    assert!(fail(&["-o", "JobID%0"]).contains("wide"));
    assert!(fail(&["-o", ","]).contains("no fields"));
    assert!(fail(&["--yaml"]).contains("--yaml is not available"));
    assert!(fail(&["-M", "other"]).contains("other: no such cluster"));
    assert!(fail(&["-S", "25:00"]).contains("--starttime: '25:00' is not a time"));
    assert!(fail(&["-s", "odd"]).contains("Invalid job state"));
    assert!(ask(&bed, &["-M", "all", "-n"]).is_ok());
}
