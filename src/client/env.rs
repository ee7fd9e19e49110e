//! Finds the cluster of this command; see [`Site`].

use super::exit::Fail;
pub(crate) use crate::spool::Site;
use crate::spool::SiteError;

impl From<SiteError> for Fail {
    fn from(e: SiteError) -> Fail {
        Fail::system(e.0)
    }
}
