//! Floor 2: the shared directory. Names of files and the legal combinations of them.

mod layout;
mod site;
pub mod view;

pub use layout::Layout;
pub use site::{Site, SiteError};
