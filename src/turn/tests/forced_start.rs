//! Starts by an administrator's order.

use super::*;

impl TestLeader {
    fn run(&mut self, uid: u32, id: &str, hosts: &str) -> (Code, String) {
        let (id, hosts) = (id.to_owned(), hosts.to_owned());
        let ack = self.ask(
            uid,
            vec![Verb::Run {
                id,
                hosts,
                closed: false,
            }],
        );
        let message = ack.results[0].clone();
        (message.code, message.text)
    }

    fn on(&self, j: JobKey) -> Vec<(String, u32)> {
        let run = self.core.state.work(j).unwrap().run.clone().unwrap();
        let name = |id| self.core.state.host_name(id).to_string();
        run.hosts.iter().map(|(h, n)| (name(*h), *n)).collect()
    }
}

#[test]
fn a_forced_start_breaks_limits_and_is_marked() {
    let mut b = TestLeader::new();
    for _ in 0..4 {
        b.submit(5, |_| {});
    }
    b.submit(5, |j| j.spec.begin = Some(Stamp(i64::MAX / 2)));
    assert_eq!(b.stat(5), JobStat::Pend);
    assert_eq!(b.run(5, "5", "h1").0, Code::Permission);
    let (code, text) = b.run(0, "5", "hh1");
    let want = "-m: there is no host \"hh1\"; did you mean \"h1\"?";
    assert_eq!((code, text.as_str()), (Code::NotFound, want));
    let (code, text) = b.run(0, "5", "h1");
    assert_eq!(
        (code, text.as_str()),
        (Code::Ok, "is being forced to run on <h1>")
    );
    assert_eq!(b.starts(), [("h1".to_string(), "5.1".to_string())]);
    let j = JobKey::job(5);
    assert!(b.core.state.work(j).unwrap().run.as_ref().unwrap().forced);
    assert_eq!(b.run(0, "5", "h1").1, "job has already started");
    assert_eq!(b.run(0, "9", "h1").0, Code::NotFound);
    assert_eq!(contents(&b.replayed()), contents(&b.core.state));
}

#[test]
fn slots_are_taken_as_written_or_as_the_hosts_have_them() {
    let mut b = TestLeader::new();
    b.submit(5, |j| {
        (j.spec.min, j.spec.max) = (5, 6);
        j.array = "1-3".into();
    });
    assert_eq!(b.run(0, "1", "h1").0, Code::Usage);
    assert_eq!(b.run(0, "1[1]", "h1#2 h2#2").0, Code::Usage, "too few");
    assert_eq!(b.run(0, "1[1]", "h1#7").0, Code::Usage, "too many");
    assert_eq!(b.run(0, "1[1]", "h1#1 h1").0, Code::Refused);
    assert_eq!(b.run(0, "1[1]", "h1#x").0, Code::Usage);
    assert_eq!(b.run(0, "1[1]", "h1 h2").0, Code::Ok);
    assert_eq!(
        b.on(JobKey::element(1, 1)),
        [("h1".into(), 2), ("h2".into(), 3)]
    );
    assert_eq!(b.run(0, "1[2]", "h2#1 h1").0, Code::Ok);
    assert_eq!(
        b.on(JobKey::element(1, 2)),
        [("h2".into(), 1), ("h1".into(), 4)]
    );
}
