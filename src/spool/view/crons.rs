//! The published cron jobs and job groups, as the view's reader gives them.

use super::{ViewError, ViewReader};
use crate::record::cron::CronJob;
use crate::record::job_group::JobGroup;
use crate::record::view;

impl ViewReader {
    /// The cron jobs of all users.
    ///
    /// # Errors
    /// As [`ViewReader::manifest`].
    pub fn crons(&self) -> Result<Vec<CronJob>, ViewError> {
        self.documents(view::CRONS)
    }

    /// The explicit job groups, by name.
    ///
    /// # Errors
    /// As [`ViewReader::manifest`].
    pub fn job_groups(&self) -> Result<Vec<JobGroup>, ViewError> {
        self.documents(view::JOB_GROUPS)
    }
}
