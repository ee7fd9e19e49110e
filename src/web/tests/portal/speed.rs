//! A hundred thousand jobs: the size of a page of the list. Its time is measured manually
//! (`docs/portal.md`), because a test of it would fail on a busy machine.

use crate::bed::{ME, TestPortal, job, spec};
use corral::model::JobStat;
use corral::record::view::Row;

const JOBS: u32 = 100_000;
const BYTES_MAX: usize = 100_000;

#[tokio::test]
async fn a_page_of_many_jobs_stays_small() {
    let mut rows = vec![spec(1, ME)];
    for id in 1..=JOBS {
        let stat = if id % 3 == 0 {
            JobStat::Run
        } else {
            JobStat::Pend
        };
        rows.push(Row::Job(Box::new(job(id, 1, stat, &format!("job-{id}")))));
    }
    let bed = TestPortal::with(true, rows);
    let login = bed.login().await;
    for query in [
        "",
        "filter=99999",
        "sort=name",
        "filter=state:pend&sort=time&reverse=yes",
    ] {
        let path = format!("/jobs?{query}");
        let begun = corral::sys::clock::boot_ms();
        let page = bed.get(&path, &[("cookie", &login.cookie)]).await;
        println!("{path}: {} ms", corral::sys::clock::boot_ms() - begun);
        assert!(
            page.status.is_success() && page.text.contains("job-"),
            "{query}"
        );
        assert!(
            page.text.len() <= BYTES_MAX,
            "{query}: {} bytes",
            page.text.len()
        );
    }
}
