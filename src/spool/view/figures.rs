//! What leaders have counted, as the view's reader gives it.

use super::{ViewError, ViewReader};
use crate::record::figures::Figures;
use crate::record::view;

impl ViewReader {
    /// The counts of leaders; `None`: there are none yet.
    ///
    /// # Errors
    /// Unreadable or damaged.
    pub fn figures(&self) -> Result<Option<Figures>, ViewError> {
        match self.documents(view::FIGURES) {
            Ok(mut docs) => Ok(docs.pop()),
            Err(ViewError::None(_)) => Ok(None),
            Err(e) => Err(e),
        }
    }
}
