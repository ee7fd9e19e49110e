//! Tests reading a small published view, and what is not read again.

use super::*;
use crate::client::read::test_cluster;
use crate::client::read::test_view::{NOW, TestView, job, row, spec};
use crate::model::{JobStat, Stamp};
use crate::record::view::{ArrayRow, Row};
use crate::show::Dates;
use jiff::tz::TimeZone;

fn ctx(source: &Source) -> Ctx {
    Ctx {
        now: Stamp(NOW),
        dates: Dates::new(TimeZone::UTC).now(NOW),
        ..source.ctx()
    }
}

fn poll(
    looking: &mut ViewPoller,
    bed: &TestView,
    uid: u32,
    needed: &NeededData,
) -> Option<ViewData> {
    let source = bed.source("cview", uid);
    match looking.poll(&source, needed, ctx(&source)) {
        PollResult::Data(world) => Some(*world),
        PollResult::Unchanged => None,
        PollResult::Failed(why) => panic!("{why}"),
    }
}

fn keys(world: &ViewData) -> String {
    let items = &world.jobs.as_ref().unwrap().items;
    let keys = items.iter().map(|item| item.key.to_string());
    keys.collect::<Vec<_>>().join(" ")
}

fn needed_jobs(all_users: bool, finished: bool) -> NeededData {
    NeededData {
        jobs: Some(NeededJobs {
            all_users,
            finished,
        }),
        ..NeededData::default()
    }
}

#[test]
fn only_what_is_needed_is_read_and_in_the_order_of_the_commands() {
    let bed = test_cluster::cluster();
    let read = |needed: &NeededData| poll(&mut ViewPoller::default(), &bed, 10, needed).unwrap();
    let own = read(&needed_jobs(false, false));
    assert_eq!(keys(&own), "3 4[2] 6 1 4");
    assert!(own.hosts.is_none() && own.page.is_none());
    assert_eq!(keys(&read(&needed_jobs(true, false))), "2 3 4[2] 6 1 4");
    assert_eq!(
        keys(&read(&needed_jobs(false, true))),
        "3 4[2] 6 1 4 4[1] 5"
    );
    let hosts = read(&NeededData {
        hosts: true,
        ..NeededData::default()
    });
    assert!(hosts.jobs.is_none());
    assert_eq!(hosts.hosts.unwrap().len(), 3);
    assert_eq!(hosts.queues.unwrap()[0].name, "a_queue_with_a_long_name");
    assert_eq!(hosts.head.cluster, "c1");
}

#[test]
fn other_users_jobs_are_not_read_where_the_cluster_hides_them() {
    let bed = TestView::new();
    bed.put(view::PARAMS, &[Params::default()]);
    bed.put(view::QUEUES, &[] as &[QueueRow]);
    let jobs = vec![
        spec(1, 10),
        spec(2, 20),
        job(JobKey::job(1), 1, JobStat::Run),
        job(JobKey::job(2), 2, JobStat::Run),
    ];
    bed.publish(&[("j0", jobs)]);
    let read = |needed: &NeededData| poll(&mut ViewPoller::default(), &bed, 10, needed).unwrap();
    assert_eq!(keys(&read(&needed_jobs(true, false))), "1");
    let other = NeededData {
        page: Some(Subject::Job(JobKey::job(2))),
        ..NeededData::default()
    };
    assert_eq!(read(&other).page.unwrap().lines, [OWN_ONLY]);
}

#[test]
fn nothing_is_read_again_before_something_changed() {
    let bed = test_cluster::cluster();
    let mut looking = ViewPoller::default();
    let needed = needed_jobs(true, false);
    assert!(poll(&mut looking, &bed, 10, &needed).is_some());
    assert!(poll(&mut looking, &bed, 10, &needed).is_none());
    // Other needs cause another read.
    assert!(poll(&mut looking, &bed, 10, &needed_jobs(false, false)).is_some());
    assert!(poll(&mut looking, &bed, 10, &needed).is_some());
    // A document of the view is replaced.
    let queue = QueueRow {
        name: "new".into(),
        ..QueueRow::default()
    };
    bed.put(view::QUEUES, &[queue]);
    let world = poll(&mut looking, &bed, 10, &needed).unwrap();
    assert_eq!(world.queues.unwrap()[0].name, "new");
    assert!(world.jobs.is_none(), "the jobs are as they were");
    assert!(poll(&mut looking, &bed, 10, &needed).is_none());
    // Data that the screen does not show is not checked.
    bed.put(view::HOSTS, &[] as &[view::HostRow]);
    assert!(poll(&mut looking, &bed, 10, &needed).is_none());
    bed.publish(&[(
        "j1",
        vec![spec(1, 10), job(JobKey::job(8), 1, JobStat::Run)],
    )]);
    bed.put(view::PARAMS, &[Params::default()]);
    assert_eq!(keys(&poll(&mut looking, &bed, 10, &needed).unwrap()), "8");
}

#[test]
fn an_array_that_only_elements_are_left_of_is_read_too() {
    let bed = TestView::new();
    bed.put(view::QUEUES, &[] as &[QueueRow]);
    let mut array = row(JobKey::job(3), 1, JobStat::Done);
    array.arr = Some(Box::new(ArrayRow {
        all: "1-2".into(),
        ..ArrayRow::default()
    }));
    let jobs = vec![spec(1, 10), Row::Job(Box::new(array))];
    let elements = vec![spec(1, 10), job(JobKey::element(3, 1), 1, JobStat::Run)];
    bed.publish(&[("j0", jobs), ("a3.0", elements)]);
    let world = poll(
        &mut ViewPoller::default(),
        &bed,
        10,
        &needed_jobs(false, false),
    )
    .unwrap();
    let jobs = world.jobs.unwrap();
    assert_eq!(&*jobs.find(JobKey::element(3, 1)).unwrap().name, "job3");
    assert!(jobs.find(JobKey::job(3)).is_some());
}

#[test]
fn a_page_has_what_the_long_list_has_and_follows_the_output() {
    let bed = TestView::new();
    bed.put(view::QUEUES, &[] as &[QueueRow]);
    let mut running = row(JobKey::job(7), 1, JobStat::Run);
    running.attempt = 1;
    bed.publish(&[("j0", vec![spec(1, 10), Row::Job(Box::new(running))])]);
    let needed = NeededData {
        page: Some(Subject::Job(JobKey::job(7))),
        ..NeededData::default()
    };
    let source = bed.source("cview", 10);
    let output = source.layout.default_output(JobKey::job(7));
    std::fs::create_dir_all(output.parent().unwrap()).unwrap();
    std::fs::write(&output, "one\n").unwrap();
    let mut looking = ViewPoller::default();
    let lines = poll(&mut looking, &bed, 10, &needed)
        .unwrap()
        .page
        .unwrap()
        .lines;
    assert!(
        lines[0].starts_with("Job <7>, Job Name <job7>, User <u10>"),
        "{lines:?}"
    );
    assert_eq!(lines.last().unwrap(), "one");
    assert!(poll(&mut looking, &bed, 10, &needed).is_none());
    std::fs::write(&output, "one\ntw\u{1b}o").unwrap();
    let page = poll(&mut looking, &bed, 10, &needed).unwrap().page.unwrap();
    assert_eq!(page.lines.last().unwrap(), "tw\\x1bo");
    assert_eq!(page.lines[..lines.len()], lines[..]);
    let missing = NeededData {
        page: Some(Subject::Job(JobKey::job(99))),
        ..NeededData::default()
    };
    let page = poll(&mut looking, &bed, 10, &missing)
        .unwrap()
        .page
        .unwrap();
    assert_eq!(page.lines, ["Job <99> is not found"]);
}

#[test]
fn lines_of_output_are_shown_as_a_terminal_would() {
    assert_eq!(last_lines(b"a\nb\n", false), ["a", "b"]);
    assert_eq!(last_lines(b"lost\nb", true), ["b"]);
    assert_eq!(last_lines(b"10%\r20%\rdone\r\n", false), ["done"]);
    assert_eq!(last_lines(b"a\tb\x1b[2J", false), ["a       b\\x1b[2J"]);
    let many = "x\n".repeat(OUTPUT_LINES + 7);
    assert_eq!(last_lines(many.as_bytes(), false).len(), OUTPUT_LINES);
}
