//! The groups of a user: groups of the operating system as last looked up, and groups of the
//! configuration. Looks nothing up itself.

use crate::config::Config;
use std::collections::HashMap;
use std::sync::Arc;

/// Groups of users.
#[derive(Debug, Default)]
pub(super) struct UserGroups {
    /// Groups of the operating system, as last looked up.
    system: HashMap<String, Vec<String>>,
    /// Groups of the configuration and of the system, computed for each user when needed.
    memberships: HashMap<String, Arc<[String]>>,
}

impl UserGroups {
    /// The groups for another configuration: memberships are computed again.
    pub(super) fn renewed(self) -> UserGroups {
        UserGroups {
            system: self.system,
            memberships: HashMap::new(),
        }
    }

    /// Stores the system groups of a user. Returns true if the scheduler has already used the old
    /// ones.
    pub(super) fn note(&mut self, user: &str, groups: &[String]) -> bool {
        if self.system.get(user).is_some_and(|known| known == groups) {
            return false;
        }
        self.system.insert(user.to_owned(), groups.to_vec());
        self.memberships.contains_key(user)
    }

    /// Groups of a user in the operating system.
    pub(super) fn of_system(&self, user: &str) -> &[String] {
        self.system.get(user).map_or(&[][..], Vec::as_slice)
    }

    /// All groups of a user.
    pub(super) fn member_of(&mut self, config: &Config, user: &str) -> Arc<[String]> {
        if let Some(known) = self.memberships.get(user) {
            return known.clone();
        }
        let of_system = self.of_system(user);
        let own = config.user_groups.keys();
        let own = own.filter(|group| config.in_user_group(user, of_system, group));
        let all: Arc<[String]> = own.chain(of_system).cloned().collect();
        self.memberships.insert(user.to_owned(), all.clone());
        all
    }
}
