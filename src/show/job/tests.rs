//! Values of single fields.

use super::samples::*;
use super::*;
use crate::show::field::{Table, find};

fn value(name: &str, v: &JobView<'_>) -> String {
    let mut out = String::new();
    (find(FIELDS, name).expect("a field").get)(v, &mut out);
    out
}

#[test]
fn names_are_unique_and_lower_case() {
    let mut seen = std::collections::HashSet::new();
    for f in FIELDS {
        for name in std::iter::once(&f.name).chain(f.aliases) {
            assert!(seen.insert(*name), "{name} twice");
            assert_eq!(*name, name.to_lowercase());
        }
    }
}

#[test]
fn fields_of_a_running_element() {
    let (ctx, row) = (ctx(), running());
    let mut spec = spec();
    spec.limits = limits();
    let v = view(&ctx, &spec, &row, None);
    for (name, want) in [
        ("jobid", "102[7]"),
        ("NAME", "sweep[7]"),
        ("exec_host", "4*h1:h2"),
        ("nalloc_slot", "5"),
        ("exit_code", ""),
        ("start_time", "Nov 21 02:57"),
        ("cpu_used", "61.0 second(s)"),
        ("cpu_clock", "000:01:01.05"),
        ("run_time", "599 second(s)"),
        ("pend_time", "6600"),
        ("idle_factor", "0.10"),
        ("mem", "2 Mbytes"),
        ("mem_mb", "3"),
        ("max_mem", "3.0 Gbytes"),
        ("memlimit", "1G"),
        ("runtimelimit", "20.0 min"),
        ("%complete", "49.00% L"),
        ("time_left", "0:10 L"),
        ("pids", "4711,4712"),
    ] {
        assert_eq!(value(name, &v), want, "{name}");
    }
}

#[test]
fn fields_of_a_killed_job() {
    let (ctx, row, spec) = (ctx(), killed(), spec());
    let v = view(&ctx, &spec, &row, None);
    assert_eq!(value("exit_code", &v), "137");
    assert_eq!(
        value("exit_reason", &v),
        "TERM_RUNLIMIT: killed: it reached its run limit"
    );
    assert_eq!(value("run_time", &v), "300 second(s)");
}

#[test]
fn an_unknown_end_has_no_exit_code() {
    let (ctx, mut row, spec) = (ctx(), killed(), spec());
    row.sig = 0;
    row.reason = TermReason::HostLost;
    assert_eq!(value("exit_code", &view(&ctx, &spec, &row, None)), "");
}

#[test]
fn machine_formats_of_known_clients() {
    let (ctx, row, spec, why) = (ctx(), pending(), spec(), why());
    let v = view(&ctx, &spec, &row, Some(&why));
    let line = |format: &str| {
        let mut out = String::new();
        let table = Table::from_format(FIELDS, format).expect("a format");
        table.row(&mut out, |get, out| get(&v, out));
        out
    };
    assert_eq!(line("jobid stat"), "101     PEND\n");
    assert_eq!(line("STAT EXEC_HOST"), "PEND  -\n");
    assert_eq!(line("exit_code"), "-\n");
    assert_eq!(
        line("jobid:8 stat: queue user:80 %complete delimiter='|'"),
        "101|PEND|normal|user0001|-\n"
    );
    assert_eq!(
        line("pend_code pend_reason delimiter='^'"),
        "30^user user0001 has reached the limit of 4 slots\n"
    );
}

#[test]
fn the_group_and_the_estimated_start_are_filled() {
    let (mut ctx, row) = (ctx(), pending());
    let estimate = EstimateRow {
        j: row.j,
        at: Some(ctx.now.0),
        ..EstimateRow::default()
    };
    ctx.estimates = Arc::new(std::iter::once((row.j, estimate)).collect());
    let mut spec = spec();
    spec.user_group = "chemists".into();
    let v = view(&ctx, &spec, &row, None);
    assert_eq!(value("user_group", &v), "chemists");
    assert_eq!(value("estimated_start_time", &v), "Nov 21 03:07");
}
