//! A configuration comes into force: from cb.yaml at the start of an epoch, or by `cadmin
//! reconfig`.

use super::context::Turn;
use crate::config::Config;
use crate::record::event::Event;
use crate::record::order::Order;
use std::collections::BTreeSet;
use std::sync::Arc;

impl Turn<'_> {
    pub(super) fn configure(&mut self, config: Arc<Config>) {
        let digest = config.digest();
        let before: BTreeSet<String> = self.core.config.host_names().map(str::to_owned).collect();
        if config.general.orphans != self.core.config.general.orphans {
            self.core.state.recheck_dependencies();
        }
        self.core.config = self.with_sensor_resources(config);
        if self.core.state.config_digest() != digest {
            let t = self.now;
            self.emit(Event::Config { digest, t });
        }
        let names: Vec<String> = self.core.config.host_names().map(str::to_owned).collect();
        for name in names {
            if self.core.state.host_id(&name).is_none() {
                let (up, boot, t) = (false, String::new(), self.now);
                self.emit(Event::HostSeen { name, up, boot, t });
            } else if !before.contains(&name) {
                self.name_ledger(&name);
            }
        }
        self.core.engine.configure(self.core.config.clone());
        self.core.hosts_changed();
        self.ready.publish = true;
    }

    /// Orders the ledger of a host that cb.yaml did not name at the start of this epoch: without
    /// this order, the host would follow no orders.
    fn name_ledger(&mut self, host: &str) {
        let id = self.core.state.host_ctl(host).ledger;
        if !id.is_empty() {
            self.ready.order(host, Order::Ledger { id });
        }
    }
}
