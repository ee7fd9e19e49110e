//! Sensor resources from load reports: definitions are added to the configuration in force, values
//! to the hosts' samples. Nothing of this is journalled: the next leader also gets it from load
//! reports.

use super::context::Turn;
use crate::config::Config;
use crate::record::load::LoadDoc;
use std::sync::Arc;

/// Maximum number of warnings of a host about its sensors.
const WARNINGS_MAX: usize = 10;

impl Turn<'_> {
    /// The configuration in force: cb.yaml, and the definitions of sensors.
    pub(super) fn with_sensor_resources(&mut self, config: Arc<Config>) -> Arc<Config> {
        self.core.inputs.sensors.rederive();
        let sensed = &self.core.config.hosts.sensed;
        if sensed.is_empty() || *sensed == config.hosts.sensed {
            return config;
        }
        let mut config = (*config).clone();
        config.hosts.sensed.clone_from(sensed);
        Arc::new(config)
    }

    /// Takes the sensors' part of a load sample, and adds the host's values to the sample.
    pub(super) fn take_sensors(&mut self, host: &str, doc: &mut LoadDoc, up: bool) {
        let report = std::mem::take(&mut doc.sensors);
        let lent = self
            .core
            .inputs
            .sensors
            .take_report(host, up.then_some(report));
        let defined = self
            .core
            .inputs
            .sensors
            .define(&self.core.config, self.mono.0);
        let redefined = defined.is_some();
        if let Some(sensed) = defined {
            let mut config = (*self.core.config).clone();
            config.hosts.sensed = sensed;
            self.core.config = Arc::new(config);
            self.core.engine.configure(self.core.config.clone());
            self.core.hosts_changed();
            self.ready.publish = true;
        }
        let values = self.core.inputs.sensors.values(host, &self.core.config);
        (doc.values, doc.shared) = (values.values, values.shared);
        doc.notes
            .extend(values.warnings.into_iter().take(WARNINGS_MAX));
        if lent || redefined {
            self.update_other_hosts(host);
        }
    }

    /// Updates the values of all other hosts.
    fn update_other_hosts(&mut self, but: &str) {
        let core = &mut *self.core;
        let others = core
            .inputs
            .loads
            .iter_mut()
            .filter(|(host, _)| *host != but);
        for (host, (doc, silent_ms)) in others {
            let values = core.inputs.sensors.values(host, &core.config);
            if (&doc.values, &doc.shared) != (&values.values, &values.shared) {
                (doc.values, doc.shared) = (values.values, values.shared);
                core.pass.needed = true;
                if !core.hosts.sample(&core.state, host, doc, *silent_ms) {
                    core.pass.hosts_changed = true;
                }
            }
        }
    }
}
