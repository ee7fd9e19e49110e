//! The published cron jobs, as the view's reader gives them.

use super::{ViewError, ViewReader};
use crate::record::cron::CronJob;
use crate::record::view;

impl ViewReader {
    /// The cron jobs of all users.
    ///
    /// # Errors
    /// As [`ViewReader::manifest`].
    pub fn crons(&self) -> Result<Vec<CronJob>, ViewError> {
        self.documents(view::CRONS)
    }
}
