//! Charts: the third-party files that draw them, and the numbers that pages contain without
//! scripts.

use crate::bed::{ME, TestPortal, job, spec};
use corral::model::JobStat;
use corral::record::view::Row;
use sha2::{Digest, Sha256};

/// uPlot 1.6.32, @xterm/xterm 6.0.0 and @xterm/addon-fit 0.11.0 from npm. To update one: `npm pack
/// NAME`, then copy these files of `dist`, `lib` and `css`, and the licence.
const VENDORED: &[(&str, &str)] = &[
    (
        "uPlot.iife.min.js",
        "19c8d4c6ad88929a79f4ae49d6f7161566dfd0ba3d15cc495e974f787eb78f1f",
    ),
    (
        "uPlot.min.css",
        "df630c6a8d6f8eeaff264b50f73ce5b114f646ffd9a0bb74f049b0a00135fa04",
    ),
    (
        "uPlot.LICENSE",
        "8f989229699b4fe2f1a0432d0e9edc338a8a911e250e2d1b01ecd770a5f5b1bd",
    ),
    (
        "xterm.js",
        "14903579ff54664cd72f8e8699e6961a6272c21863ec1c3b118cdc8af5d4a972",
    ),
    (
        "xterm.css",
        "854a7c0fb70e8b1a083c16797ab827299fb18744f5ad34f227b48337e33293c6",
    ),
    (
        "xterm.LICENSE",
        "b569f629d00f2626a8100df2a1798210535621e42164dfd426a6fe5aac7b0ccd",
    ),
    (
        "addon-fit.js",
        "ba3ea256ce0620a0992a197d6c9baea64823fc93d8da07a9e366ca9943c18527",
    ),
    (
        "addon-fit.LICENSE",
        "e256f01188af527e4d06d21d06fbf785ae9c50d4b328bf03cbe0ba7f0aa4228f",
    ),
];

#[test]
fn files_of_others_are_as_they_were_published() {
    let dir = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("assets/vendor");
    let mut names: Vec<String> = std::fs::read_dir(&dir)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    let mut known: Vec<&str> = VENDORED.iter().map(|(name, _)| *name).collect();
    known.sort_unstable();
    assert_eq!(names, known);
    for (name, want) in VENDORED {
        let digest = Sha256::digest(std::fs::read(dir.join(name)).unwrap());
        let hex: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(hex, *want, "{name}");
    }
}

#[tokio::test]
async fn vendored_files_are_given_and_nothing_beside_them() {
    let bed = TestPortal::new();
    let given = bed.get("/assets/vendor/uPlot.iife.min.js", &[]).await;
    assert_eq!(given.status, 200);
    assert!(given.header("content-type").starts_with("text/javascript"));
    for place in [
        "/assets/vendor/..%2fapp.js",
        "/assets/vendor/none.js",
        "/assets/vendor%2fx",
    ] {
        assert_eq!(bed.get(place, &[]).await.status, 404, "{place}");
    }
}

#[tokio::test]
async fn pages_hold_the_numbers_of_their_charts() {
    let bed = TestPortal::new();
    let login = bed.login().await;
    let cookie = [("cookie", login.cookie.as_str())];
    let begun = 1_795_230_100_000;
    bed.app.sample(begun);
    assert!(
        !bed.get("/jobs/1", &cookie)
            .await
            .text
            .contains("id=\"chart-")
    );
    for n in 1..4 {
        bed.app.sample(begun + n * 61_000);
    }
    let page = bed.get("/jobs/1", &cookie).await.text;
    for id in ["cpu", "memory", "processes", "files"] {
        assert!(page.contains(&format!("id=\"chart-{id}\"")), "{id}");
    }
    assert_eq!(page.matches("data-at=").count(), 4 * 4);
    let page = bed.get("/", &cookie).await.text;
    assert!(page.contains("id=\"chart-user-slots\"") && page.contains(">u4712</th>"));
    let host = bed.get("/hosts/h1", &cookie).await.text;
    assert!(host.contains("id=\"chart-slots\""), "{host}");
}

#[tokio::test]
async fn who_does_not_see_others_sees_no_line_of_theirs() {
    let row = |id, s| Row::Job(Box::new(job(id, s, JobStat::Run, "x")));
    let rows = vec![spec(1, ME), spec(2, ME + 1), row(1, 1), row(2, 2)];
    let bed = TestPortal::with(false, rows);
    let login = bed.login().await;
    // The process of a service sees all jobs; these samples are made as in such a process.
    let sums = corral::api::jobs::JobSums {
        by_user: ["u4711", "u4712"]
            .map(|name| {
                let sum = corral::api::jobs::JobSum {
                    pending: 0,
                    started: 1,
                    slots: 1,
                };
                (name.to_owned(), sum)
            })
            .into(),
        ..corral::api::jobs::JobSums::default()
    };
    let view = bed.app.cluster.now();
    for n in 1..3 {
        bed.app.history().note(n * 61_000, &view, &sums);
    }
    let page = bed.get("/", &[("cookie", &login.cookie)]).await.text;
    assert!(page.contains("id=\"chart-user-slots\""), "{page}");
    assert!(!page.contains("u4712"), "another's line is shown");
}
