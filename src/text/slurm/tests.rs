//! Forms of the values of Slurm and PBS.

use super::*;
use jiff::tz::TimeZone;
use proptest::prelude::*;

#[test]
fn every_form_of_a_time_limit() {
    for (text, want) in [
        ("10", Some(600)),
        ("10:30", Some(630)),
        ("1:02:03", Some(3723)),
        ("2-3", Some(183_600)),
        ("2-3:04", Some(183_840)),
        ("2-03:04:05", Some(183_845)),
        ("0", None),
        ("infinite", None),
        ("UNLIMITED", None),
        ("-1", None),
    ] {
        assert_eq!(time_limit(text), Ok(want), "{text}");
    }
    for bad in [
        "",
        "x",
        "1:2:3:4",
        "1-",
        "-2",
        "1-2:3:4:5",
        "1d",
        "9999999-0",
    ] {
        assert!(time_limit(bad).is_err(), "{bad}");
    }
    assert_eq!(walltime("90"), Ok(90));
    assert_eq!(walltime("1:30"), Ok(90));
    assert_eq!(walltime("24:00:00"), Ok(86_400));
    assert!(walltime("0").is_err() && walltime("1-0").is_err());
}

#[test]
fn sizes() {
    assert_eq!(memory("4000"), Ok(4000 << 20));
    assert_eq!(memory("4g"), Ok(4 << 30));
    assert_eq!(memory("4GB"), Ok(4 << 30));
    assert_eq!(memory("512K"), Ok(512 << 10));
    assert!(memory("").is_err() && memory("G").is_err() && memory("1.5G").is_err());
    assert_eq!(pbs_size("4gb"), Ok(4 << 30));
    assert_eq!(pbs_size("100"), Ok(100));
    assert!(pbs_size("4gw").is_err() && pbs_size("gb").is_err());
}

#[test]
fn index_lists() {
    let read = |text: &str| {
        IndexList::parse(text).map(|l| format!("{} {} {:?}", l.indices, l.shift, l.limit))
    };
    assert_eq!(read("1-10:2%4"), Ok("1-9:2 0 Some(4)".into()));
    assert_eq!(read("0-3"), Ok("1-4 1 None".into()));
    assert_eq!(read("7"), Ok("7 0 None".into()));
    assert_eq!(read("0,5,7-8"), Ok("1,6,8-9 1 None".into()));
    for bad in [
        "",
        "a",
        "3-1",
        "1-5:0",
        "1%0",
        "1%",
        "1,,2",
        "1-",
        "-1",
        "99999999999",
    ] {
        assert!(read(bad).is_err(), "{bad}");
    }
}

#[test]
fn patterns_of_file_names() {
    let marks = |array| PatternValues {
        name: "a%b",
        user: "ann",
        array,
    };
    for (text, array, want) in [
        ("slurm-%j.out", false, "slurm-%J.out"),
        ("slurm-%A_%a.out", true, "slurm-%J_%I.out"),
        ("x.%j", true, "x.%J_%I"),
        ("%x.%u.%%", false, "a%%b.ann.%%"),
        ("%n-%t-%s", false, "0-0-batch"),
        ("none", false, "/dev/null"),
        ("a\\%j", false, "a%%j"),
        ("100%", false, "100%%"),
    ] {
        assert_eq!(
            file_pattern(text, marks(array)).as_deref(),
            Ok(want),
            "{text}"
        );
    }
    for bad in ["%N", "%4j", "%b"] {
        assert!(file_pattern(bad, marks(false)).is_err(), "{bad}");
    }
    assert_eq!(host_words("n[1-3,5],gw"), "n[1-3,5] gw");
}

#[test]
fn ids_and_their_elements_here() {
    let here = |text: &str, shift| SlurmJobId::parse(text).and_then(|word| word.corral_id(shift));
    assert_eq!(here("12", 1), Ok("12".into()));
    assert_eq!(here("12.batch", 0), Ok("12".into()));
    assert_eq!(here("12_3", 0), Ok("12[3]".into()));
    assert_eq!(here("12_0", 1), Ok("12[1]".into()));
    assert_eq!(here("12_[0-4:2,7]", 1), Ok("12[1-5:2,8]".into()));
    assert_eq!(here("12_[1-2000000000]", 1), Ok("12[2-2000000001]".into()));
    assert!(here("12_0", 0).unwrap_err().contains("no such element"));
    for bad in ["", "x", "0", "12_", "12_x", "12_[1", "-1", "99999999999"] {
        assert!(SlurmJobId::parse(bad).is_err(), "{bad}");
    }
}

#[test]
fn dependencies_are_conditions() {
    let read = |text: &str| dependency(text, &mut |id| Ok(id % 2));
    for (text, want) in [
        ("afterok:12:13", "done(12) && done(13)"),
        ("afterany:12,afternotok:14", "ended(12) && exit(14)"),
        ("afterok:12?after:13", "done(12) || started(13)"),
        ("afterok:13_0", "done(13[1])"),
        ("afterok:12_3", "done(12[3])"),
    ] {
        let found = read(text);
        assert_eq!(found.as_deref(), Ok(want), "{text}");
        assert!(crate::text::depend::Expr::parse(want).is_ok(), "{want}");
    }
    for bad in [
        "singleton",
        "aftercorr:12",
        "afterok",
        "afterok:",
        "after:12+5",
        "afterok:x",
        "a:1,b:2?c:3",
        "",
    ] {
        assert!(read(bad).is_err(), "{bad}");
    }
    assert_eq!(
        pbs_dependency("afterok:12.server:13,afterany:14").as_deref(),
        Ok("done(12) && done(13) && ended(14)")
    );
    assert!(pbs_dependency("beforeok:12").is_err());
}

/// 2026-11-21 03:07:09 UTC.
const NOW: i64 = 1_795_230_429_000;

fn shown(read: Result<i64, String>) -> String {
    let ms = read.unwrap();
    let t = jiff::Timestamp::from_millisecond(ms).unwrap();
    t.to_zoned(TimeZone::UTC).strftime("%F %T").to_string()
}

#[test]
fn moments_of_a_begin() {
    for (text, want) in [
        ("now", "2026-11-21 03:07:09"),
        ("now+90", "2026-11-21 03:08:39"),
        ("now+2hours", "2026-11-21 05:07:09"),
        ("now+1week", "2026-11-28 03:07:09"),
        ("14:30", "2026-11-21 14:30:00"),
        ("03:00", "2026-11-22 03:00:00"),
        ("2:30pm", "2026-11-21 14:30:00"),
        ("12:15AM", "2026-11-22 00:15:00"),
        ("noon", "2026-11-21 12:00:00"),
        ("midnight", "2026-11-22 00:00:00"),
        ("tomorrow", "2026-11-22 03:07:09"),
        ("2027-01-02", "2027-01-02 00:00:00"),
        ("2027-01-02T03:04", "2027-01-02 03:04:00"),
        ("2027-01-02T03:04:05", "2027-01-02 03:04:05"),
        ("12/31", "2026-12-31 00:00:00"),
        ("12/31/27", "2027-12-31 00:00:00"),
        ("123127", "2027-12-31 00:00:00"),
    ] {
        assert_eq!(shown(begin(text, NOW, &TimeZone::UTC)), want, "{text}");
    }
    for bad in [
        "",
        "x",
        "25:00",
        "13:00pm",
        "2027-13-01",
        "now+",
        "now+2years",
        "12",
        "é1/31",
    ] {
        assert!(begin(bad, NOW, &TimeZone::UTC).is_err(), "{bad}");
    }
}

#[test]
fn moments_of_a_range() {
    for (text, want) in [
        ("today", "2026-11-21 00:00:00"),
        ("03:00", "2026-11-21 03:00:00"),
        ("now-1days", "2026-11-20 03:07:09"),
        ("2026-11-01", "2026-11-01 00:00:00"),
    ] {
        assert_eq!(shown(moment(text, NOW, &TimeZone::UTC)), want, "{text}");
    }
}

#[test]
fn moments_of_pbs() {
    for (text, want) in [
        ("1430", "2026-11-21 14:30:00"),
        ("0300", "2026-11-22 03:00:00"),
        ("300500.30", "2026-11-30 05:00:30"),
        ("010500", "2026-12-01 05:00:00"),
        ("01020500", "2027-01-02 05:00:00"),
        ("202701020500", "2027-01-02 05:00:00"),
        ("2701020500", "2027-01-02 05:00:00"),
    ] {
        assert_eq!(shown(pbs_moment(text, NOW, &TimeZone::UTC)), want, "{text}");
    }
    for bad in ["", "12", "2560", "14:30", "12345"] {
        assert!(pbs_moment(bad, NOW, &TimeZone::UTC).is_err(), "{bad}");
    }
}

#[test]
fn times_as_they_are_printed() {
    assert_eq!(clock(63), "1:03");
    assert_eq!(clock(3_723), "1:02:03");
    assert_eq!(clock(90_000), "1-01:00:00");
    assert_eq!(long_clock(63), "00:01:03");
    assert_eq!(long_clock(90_000), "1-01:00:00");
}

proptest! {
    #![proptest_config(super::super::cases())]
    #[test]
    fn printed_times_are_read_back(s in 1_u64..3_000_000) {
        prop_assert_eq!(time_limit(&long_clock(s)), Ok(Some(s)));
    }

    #[test]
    fn never_panics(s in ".{0,40}", t in "[-0-9:,%_\\[\\]a-z+?.T/]{0,30}") {
        for text in [&s, &t] {
            let _ = (time_limit(text), walltime(text), memory(text), pbs_size(text));
            let _ = (IndexList::parse(text), dependency(text, &mut |_| Ok(1)));
            let _ = SlurmJobId::parse(text).map(|word| word.corral_id(1));
            let _ = (begin(text, NOW, &TimeZone::UTC), moment(text, NOW, &TimeZone::UTC));
            let _ = pbs_moment(text, NOW, &TimeZone::UTC);
            let _ = file_pattern(text, PatternValues::default());
        }
    }
}
