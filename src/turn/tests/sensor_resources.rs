//! Sensors' resources from load samples to starts.

use super::*;
use crate::record::load::Sensed;

impl TestLeader {
    /// A sample of a host whose sensors report this: name, locale, value.
    fn senses(&mut self, host: &str, sensors: &[(&str, &str, &str)], silent_ms: u64) {
        let one = |(name, locale, value): &(&str, &str, &str)| {
            let sensed = Sensed {
                locale: (*locale).into(),
                value: Some((*value).into()),
                ..Sensed::default()
            };
            ((*name).to_owned(), sensed)
        };
        let doc = LoadDoc {
            host: host.into(),
            boot: "b".into(),
            executor: true,
            ncpus: 2,
            mem: 1000.0,
            host_type: "X".into(),
            sensors: sensors.iter().map(one).collect(),
            ..LoadDoc::default()
        };
        self.turn(vec![Input::Load {
            host: host.into(),
            doc: Box::new(doc),
            silent_ms,
        }]);
    }

    fn asks(&mut self, req: &str) -> Ack {
        self.submit(1, |s| s.spec.res_req = req.to_owned())
    }
}

#[test]
fn what_a_sensor_reports_can_be_reserved_until_it_is_gone() {
    let mut b = TestLeader::new();
    let refused = b.asks("rusage[lic=2]");
    assert!(
        refused.ids.is_empty() && format!("{refused:?}").contains("lic"),
        "{refused:?}"
    );
    b.senses("h2", &[("lic", "", "3")], 0);
    assert_eq!(b.asks("rusage[lic=2]").ids.len(), 1);
    let starts = b.starts();
    assert!(starts.len() == 1 && starts[0].0 == "h2", "{starts:?}");
    // One is left, and the rest is known again after the configuration was read again.
    let mut config = (*b.core.config).clone();
    config.hosts.sensed.clear();
    b.turn(vec![Input::Config(Arc::new(config))]);
    assert_eq!(b.asks("rusage[lic=2]").ids.len(), 1);
    assert_eq!(b.starts(), []);
    b.senses("h2", &[("lic", "", "4")], 0);
    assert_eq!(b.starts().len(), 1);
    assert!(b.core.inputs.loads["h2"].0.sensors.is_empty());
    b.senses("h2", &[], 0);
    assert_eq!(b.asks("select[lic>=0]").ids.len(), 1);
    assert_eq!(b.starts(), []);
}

#[test]
fn a_shared_value_reaches_all_hosts_and_is_reserved_once() {
    let mut b = TestLeader::new();
    b.senses("h1", &[("net", "all", "7")], 0);
    assert_eq!(
        b.core.hosts.find_by_name("h2").unwrap().load.values["net"],
        "7"
    );
    // Seven for all hosts together, regardless of which host runs the job.
    for started in [1, 1, 0] {
        assert_eq!(b.asks("rusage[net=3]").ids.len(), 1);
        assert_eq!(b.starts().len(), started);
    }
    // The sensor's value is what jobs may have: a smaller one leaves no room, a larger one starts
    // the third job.
    b.senses("h1", &[("net", "all", "8")], 0);
    assert_eq!(b.starts(), []);
    b.senses("h1", &[("net", "all", "9")], 0);
    assert_eq!(b.starts().len(), 1);
    assert_eq!(b.asks("select[net>6]").ids.len(), 1);
    assert_eq!(b.starts().len(), 1);
    b.senses("h1", &[("net", "all", "5")], 0);
    assert_eq!(b.asks("select[net>6]").ids.len(), 1);
    assert_eq!(b.starts(), []);
    // Its host becomes silent: the value is no longer known.
    b.senses("h1", &[("net", "all", "9")], SILENT_MS);
    assert!(
        b.core
            .hosts
            .find_by_name("h2")
            .unwrap()
            .load
            .values
            .is_empty()
    );
}
