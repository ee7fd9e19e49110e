//! A secret that a user typed: kept apart from other fields, shown in no log, overwritten when it
//! is no longer needed.
//!
//! It cannot control copies in buffers of libraries: the process that holds those writes no core
//! and is closed to other processes.

use std::sync::Arc;
use zeroize::Zeroizing;

/// See the top of this file. Copies share one text.
#[derive(Clone, Default)]
pub struct Secret(Arc<Zeroizing<String>>);

impl Secret {
    pub fn new(text: String) -> Secret {
        Secret(Arc::new(Zeroizing::new(text)))
    }

    /// The text; do not copy it.
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl std::fmt::Debug for Secret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("secret")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_not_shown() {
        let secret = Secret::new("hunter2".to_owned());
        assert_eq!(format!("{secret:?}"), "secret");
        assert_eq!(secret.reveal(), "hunter2");
    }
}
